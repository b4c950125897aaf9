"""One event of each type at least, with the JSON object that the contract gives it."""

from __future__ import annotations

from privplan.accountant import events as ev

Example = tuple[ev.Event, dict[str, object]]
GAUSSIAN = ev.Gaussian(1.0)
INNER = {"type": "gaussian", "noise_multiplier": 1.0}
LAPLACE = ev.Laplace(2.0)
INNER_LAPLACE = {"type": "laplace", "noise_multiplier": 2.0}
SINGLE = ev.SingleParticipation()


def example(event: ev.Event, name: str, /, **fields: object) -> Example:
    return event, {"type": name, **fields}


def correlated(
    strategy: ev.Strategy, participation: ev.Participation, *, as_json: tuple[object, object]
) -> Example:
    """Return correlated noise of 2, with the objects of its strategy and its participation."""
    fields = {"noise_multiplier": 2.0, "strategy": as_json[0], "participation": as_json[1]}
    return ev.MatrixGaussian(2.0, strategy, participation), {"type": "matrix-gaussian", **fields}


EXAMPLES: list[Example] = [
    example(ev.Gaussian(1.5), "gaussian", noise_multiplier=1.5),
    example(ev.Laplace(2), "laplace", noise_multiplier=2.0),
    example(ev.DiscreteGaussian(1.0, 3), "discrete-gaussian", noise_multiplier=1.0, sensitivity=3),
    example(ev.DiscreteLaplace(1.0, 3), "discrete-laplace", noise_multiplier=1.0, sensitivity=3),
    example(ev.RandomizedResponse(1.0, 4), "randomized-response", epsilon=1.0, categories=4),
    example(ev.Local(1.0), "local", epsilon=1.0),
    example(ev.Exponential(1.0), "exponential", epsilon=1.0),
    example(ev.Pure(0), "pure", epsilon=0.0),
    example(ev.Approximate(1.0, 1e-6), "approximate", epsilon=1.0, delta=1e-6),
    example(ev.ZCDP(0.5), "zcdp", rho=0.5),
    example(ev.NoGuarantee("top-k"), "no-guarantee", reason="top-k"),
    example(ev.Poisson(0.01, GAUSSIAN), "poisson", rate=0.01, event=INNER),
    example(
        ev.TruncatedPoisson(0.01, 12, 1000, GAUSSIAN),
        "truncated-poisson",
        **{"rate": 0.01, "batch": 12, "population": 1000, "event": INNER},
    ),
    example(ev.FixedSize(10, 1000, GAUSSIAN), "fixed-size", batch=10, population=1000, event=INNER),
    example(ev.ShuffledBatches(100, GAUSSIAN), "shuffled-batches", batches=100, event=INNER),
    example(
        ev.RandomAllocation(100, 3, GAUSSIAN), "random-allocation", steps=100, chosen=3, event=INNER
    ),
    example(ev.Shuffle(10000, LAPLACE), "shuffle", users=10000, event=INNER_LAPLACE),
    example(
        ev.SampledShuffle(100, 50, 5, 20, "coordinate", "oblivious", "refuse", LAPLACE),
        "sampled-shuffle",
        **{"users": 100, "dimensions": 50, "chosen": 5, "padded_to": 20},
        **{"granularity": "coordinate", "selection": "oblivious", "overflow": "refuse"},
        event=INNER_LAPLACE,
    ),
    example(ev.Compose([GAUSSIAN, LAPLACE]), "compose", events=[INNER, INNER_LAPLACE]),
    example(ev.Repeat(1000, GAUSSIAN), "repeat", count=1000, event=INNER),
    example(ev.Group(8, GAUSSIAN), "group", size=8, event=INNER),
    example(
        ev.BestOf("geometric", 10, GAUSSIAN),
        "best-of",
        **{"distribution": "geometric", "mean": 10.0, "event": INNER},
    ),
    example(
        ev.BestOf("negative-binomial", 10, GAUSSIAN, 0.5),
        "best-of",
        **{"distribution": "negative-binomial", "mean": 10.0, "event": INNER, "shape": 0.5},
    ),
    example(
        ev.TruncatedDiscreteGaussian(1.0, 2, 30),
        "truncated-discrete-gaussian",
        **{"noise_multiplier": 1.0, "sensitivity": 2, "bound": 30},
    ),
    example(
        ev.GaussianMixture(1.0, [1.0, 2.0], [0.25, 0.5]),
        "gaussian-mixture",
        **{"noise_multiplier": 1.0, "contributions": [1.0, 2.0], "probabilities": [0.25, 0.5]},
    ),
    example(ev.Renyi([2.0, 4.0], [0.5, 1.0]), "renyi", orders=[2.0, 4.0], values=[0.5, 1.0]),
    example(
        ev.WithReplacement(10, 1000, GAUSSIAN),
        "with-replacement",
        **{"batch": 10, "population": 1000, "event": INNER},
    ),
    example(ev.ClientSampled(0.1, GAUSSIAN), "client-sampled", clients_rate=0.1, event=INNER),
    example(
        ev.TruncatedGeometricSelection(1.0, 1e-5, 3),
        "truncated-geometric-selection",
        **{"epsilon": 1.0, "delta": 1e-5, "partitions": 3},
    ),
    example(
        ev.ThresholdSelection("laplace", 2.0, 30.0, 3),
        "threshold-selection",
        **{"noise": "laplace", "noise_scale": 2.0, "threshold": 30.0, "partitions": 3},
    ),
    correlated(
        ev.DenseStrategy([[1, 0], [0.5, 1]]),
        SINGLE,
        as_json=({"type": "dense", "rows": [[1.0, 0.0], [0.5, 1.0]]}, {"type": "single"}),
    ),
    correlated(
        ev.ToeplitzStrategy(6, [1.0, 0.5]),
        ev.SeparatedParticipation(2, 3),
        as_json=(
            {"type": "toeplitz", "steps": 6, "coefficients": [1.0, 0.5]},
            {"type": "separated", "most": 2, "separation": 3},
        ),
    ),
    correlated(
        ev.TreeStrategy(8, 2),
        ev.BallsInBins(4),
        as_json=(
            {"type": "tree", "steps": 8, "fan_out": 2},
            {"type": "balls-in-bins", "bins": 4},
        ),
    ),
    correlated(
        ev.BufferedToeplitzStrategy(8, [0.9], [0.1]),
        ev.EpochParticipation(2),
        as_json=(
            {"type": "buffered-toeplitz", "steps": 8, "decays": [0.9], "scales": [0.1]},
            {"type": "epochs", "epochs": 2},
        ),
    ),
    correlated(
        ev.BandedStrategy([[1, 1], [0.5]]),
        SINGLE,
        as_json=({"type": "banded", "diagonals": [[1.0, 1.0], [0.5]]}, {"type": "single"}),
    ),
]
