"""One event of each type at least, with the JSON object that the contract gives it."""

from __future__ import annotations

from privplan.accountant import events as ev

EXAMPLES: list[tuple[ev.Event, dict[str, object]]] = [
    (ev.Gaussian(1.5), {"type": "gaussian", "noise_multiplier": 1.5}),
    (ev.Laplace(2), {"type": "laplace", "noise_multiplier": 2.0}),
    (
        ev.DiscreteGaussian(1.0, 3),
        {"type": "discrete-gaussian", "noise_multiplier": 1.0, "sensitivity": 3},
    ),
    (
        ev.DiscreteLaplace(1.0, 3),
        {"type": "discrete-laplace", "noise_multiplier": 1.0, "sensitivity": 3},
    ),
    (
        ev.RandomizedResponse(1.0, 4),
        {"type": "randomized-response", "epsilon": 1.0, "categories": 4},
    ),
    (ev.Local(1.0), {"type": "local", "epsilon": 1.0}),
    (ev.Exponential(1.0), {"type": "exponential", "epsilon": 1.0}),
    (ev.Pure(0), {"type": "pure", "epsilon": 0.0}),
    (ev.Approximate(1.0, 1e-6), {"type": "approximate", "epsilon": 1.0, "delta": 1e-6}),
    (ev.ZCDP(0.5), {"type": "zcdp", "rho": 0.5}),
    (ev.NoGuarantee("top-k"), {"type": "no-guarantee", "reason": "top-k"}),
    (
        ev.Poisson(0.01, ev.Gaussian(1.0)),
        {"type": "poisson", "rate": 0.01, "event": {"type": "gaussian", "noise_multiplier": 1.0}},
    ),
    (
        ev.TruncatedPoisson(0.01, 12, 1000, ev.Gaussian(1.0)),
        {
            "type": "truncated-poisson",
            "rate": 0.01,
            "batch": 12,
            "population": 1000,
            "event": {"type": "gaussian", "noise_multiplier": 1.0},
        },
    ),
    (
        ev.FixedSize(10, 1000, ev.Gaussian(1.0)),
        {
            "type": "fixed-size",
            "batch": 10,
            "population": 1000,
            "event": {"type": "gaussian", "noise_multiplier": 1.0},
        },
    ),
    (
        ev.ShuffledBatches(100, ev.Gaussian(1.0)),
        {
            "type": "shuffled-batches",
            "batches": 100,
            "event": {"type": "gaussian", "noise_multiplier": 1.0},
        },
    ),
    (
        ev.RandomAllocation(100, 3, ev.Gaussian(1.0)),
        {
            "type": "random-allocation",
            "steps": 100,
            "chosen": 3,
            "event": {"type": "gaussian", "noise_multiplier": 1.0},
        },
    ),
    (
        ev.Shuffle(10000, ev.Laplace(2.0)),
        {
            "type": "shuffle",
            "users": 10000,
            "event": {"type": "laplace", "noise_multiplier": 2.0},
        },
    ),
    (
        ev.SampledShuffle(100, 50, 5, 20, "coordinate", "oblivious", "refuse", ev.Laplace(2.0)),
        {
            "type": "sampled-shuffle",
            "users": 100,
            "dimensions": 50,
            "chosen": 5,
            "padded_to": 20,
            "granularity": "coordinate",
            "selection": "oblivious",
            "overflow": "refuse",
            "event": {"type": "laplace", "noise_multiplier": 2.0},
        },
    ),
    (
        ev.Compose([ev.Gaussian(1.0), ev.Laplace(2.0)]),
        {
            "type": "compose",
            "events": [
                {"type": "gaussian", "noise_multiplier": 1.0},
                {"type": "laplace", "noise_multiplier": 2.0},
            ],
        },
    ),
    (
        ev.Repeat(1000, ev.Gaussian(1.0)),
        {"type": "repeat", "count": 1000, "event": {"type": "gaussian", "noise_multiplier": 1.0}},
    ),
    (
        ev.Group(8, ev.Gaussian(1.0)),
        {"type": "group", "size": 8, "event": {"type": "gaussian", "noise_multiplier": 1.0}},
    ),
    (
        ev.BestOf("geometric", 10, ev.Gaussian(1.0)),
        {
            "type": "best-of",
            "distribution": "geometric",
            "mean": 10.0,
            "event": {"type": "gaussian", "noise_multiplier": 1.0},
        },
    ),
    (
        ev.BestOf("negative-binomial", 10, ev.Gaussian(1.0), 0.5),
        {
            "type": "best-of",
            "distribution": "negative-binomial",
            "mean": 10.0,
            "event": {"type": "gaussian", "noise_multiplier": 1.0},
            "shape": 0.5,
        },
    ),
    (
        ev.TruncatedDiscreteGaussian(1.0, 2, 30),
        {
            "type": "truncated-discrete-gaussian",
            "noise_multiplier": 1.0,
            "sensitivity": 2,
            "bound": 30,
        },
    ),
    (
        ev.GaussianMixture(1.0, [1.0, 2.0], [0.25, 0.5]),
        {
            "type": "gaussian-mixture",
            "noise_multiplier": 1.0,
            "contributions": [1.0, 2.0],
            "probabilities": [0.25, 0.5],
        },
    ),
    (
        ev.Renyi([2.0, 4.0], [0.5, 1.0]),
        {"type": "renyi", "orders": [2.0, 4.0], "values": [0.5, 1.0]},
    ),
    (
        ev.WithReplacement(10, 1000, ev.Gaussian(1.0)),
        {
            "type": "with-replacement",
            "batch": 10,
            "population": 1000,
            "event": {"type": "gaussian", "noise_multiplier": 1.0},
        },
    ),
    (
        ev.ClientSampled(0.1, ev.Gaussian(1.0)),
        {
            "type": "client-sampled",
            "clients_rate": 0.1,
            "event": {"type": "gaussian", "noise_multiplier": 1.0},
        },
    ),
    (
        ev.TruncatedGeometricSelection(1.0, 1e-5, 3),
        {
            "type": "truncated-geometric-selection",
            "epsilon": 1.0,
            "delta": 1e-5,
            "partitions": 3,
        },
    ),
    (
        ev.ThresholdSelection("laplace", 2.0, 30.0, 3),
        {
            "type": "threshold-selection",
            "noise": "laplace",
            "noise_scale": 2.0,
            "threshold": 30.0,
            "partitions": 3,
        },
    ),
    (
        ev.MatrixGaussian(2.0, ev.DenseStrategy([[1, 0], [0.5, 1]]), ev.SingleParticipation()),
        {
            "type": "matrix-gaussian",
            "noise_multiplier": 2.0,
            "strategy": {"type": "dense", "rows": [[1.0, 0.0], [0.5, 1.0]]},
            "participation": {"type": "single"},
        },
    ),
    (
        ev.MatrixGaussian(2.0, ev.ToeplitzStrategy(6, [1.0, 0.5]), ev.SeparatedParticipation(2, 3)),
        {
            "type": "matrix-gaussian",
            "noise_multiplier": 2.0,
            "strategy": {"type": "toeplitz", "steps": 6, "coefficients": [1.0, 0.5]},
            "participation": {"type": "separated", "most": 2, "separation": 3},
        },
    ),
    (
        ev.MatrixGaussian(2.0, ev.TreeStrategy(8, 2), ev.BallsInBins(4)),
        {
            "type": "matrix-gaussian",
            "noise_multiplier": 2.0,
            "strategy": {"type": "tree", "steps": 8, "fan_out": 2},
            "participation": {"type": "balls-in-bins", "bins": 4},
        },
    ),
    (
        ev.MatrixGaussian(
            2.0, ev.BufferedToeplitzStrategy(8, [0.9], [0.1]), ev.EpochParticipation(2)
        ),
        {
            "type": "matrix-gaussian",
            "noise_multiplier": 2.0,
            "strategy": {
                "type": "buffered-toeplitz",
                "steps": 8,
                "decays": [0.9],
                "scales": [0.1],
            },
            "participation": {"type": "epochs", "epochs": 2},
        },
    ),
    (
        ev.MatrixGaussian(2.0, ev.BandedStrategy([[1, 1], [0.5]]), ev.SingleParticipation()),
        {
            "type": "matrix-gaussian",
            "noise_multiplier": 2.0,
            "strategy": {"type": "banded", "diagonals": [[1.0, 1.0], [0.5]]},
            "participation": {"type": "single"},
        },
    ),
]
