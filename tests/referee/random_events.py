"""Random events of every type, nested as the contract allows, and small enough to be cheap.

Which of them an engine can answer is for the engine to say: a refusal is an answer too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

Json = dict[str, Any]
Maker = Callable[[random.Random], Json]


def number(rng: random.Random, low: float, high: float) -> float:
    """Return a number with four digits, as likely in each decade between two ends."""
    import math

    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.4g}")


def _noise(rng: random.Random) -> float:
    return number(rng, 0.4, 12.0)


def _gaussian(rng: random.Random) -> Json:
    return {"type": "gaussian", "noise_multiplier": _noise(rng)}


def _laplace(rng: random.Random) -> Json:
    return {"type": "laplace", "noise_multiplier": _noise(rng)}


def _discrete(kind: str) -> Maker:
    def make(rng: random.Random) -> Json:
        sensitivity = rng.choice((1, 1, 2, 3, 10))
        return {"type": kind, "noise_multiplier": _noise(rng), "sensitivity": sensitivity}

    return make


def _truncated(rng: random.Random) -> Json:
    event = _discrete("truncated-discrete-gaussian")(rng)
    spread = event["noise_multiplier"] * event["sensitivity"]
    return {**event, "bound": max(1, round(spread * number(rng, 1.5, 12.0)))}


def _mixture(rng: random.Random) -> Json:
    count = rng.randint(1, 4)
    shares = [rng.random() for _ in range(count + 1)]
    total = sum(shares)
    return {
        "type": "gaussian-mixture",
        "noise_multiplier": _noise(rng),
        "contributions": [number(rng, 0.1, 3.0) for _ in range(count)],
        "probabilities": [float(f"{share / total * 0.999:.4g}") for share in shares[:count]],
    }


def _bare(kind: str, name: str = "epsilon") -> Maker:
    def make(rng: random.Random) -> Json:
        return {"type": kind, name: rng.choice((0.0, *[number(rng, 0.01, 5.0)] * 9))}

    return make


def _randomized(rng: random.Random) -> Json:
    return {**_bare("randomized-response")(rng), "categories": rng.choice((2, 2, 3, 10))}


def _approximate(rng: random.Random) -> Json:
    return {**_bare("approximate")(rng), "delta": rng.choice((0.0, number(rng, 1e-9, 1e-3)))}


def _renyi(rng: random.Random) -> Json:
    orders = sorted({number(rng, 1.1, 100.0) for _ in range(rng.randint(1, 6))})
    slope = number(rng, 0.005, 0.5)
    return {
        "type": "renyi",
        "orders": orders,
        "values": [float(f"{slope * order * rng.uniform(0.9, 1.1):.4g}") for order in orders],
    }


def _no_guarantee(_: random.Random) -> Json:
    return {"type": "no-guarantee", "reason": "no noise is added"}


def _dense(rng: random.Random, steps: int) -> Json:
    rows = [
        [
            1.0 if row == column else float(f"{rng.uniform(-0.8, 0.8):.3f}") * (column < row)
            for column in range(steps)
        ]
        for row in range(steps + rng.randint(0, 1))
    ]
    return {"type": "dense", "rows": rows}


def _banded(rng: random.Random, steps: int) -> Json:
    bands = rng.randint(1, min(3, steps))
    diagonals = [
        [1.0 if band == 0 else float(f"{rng.uniform(0.1, 0.8):.3f}") for _ in range(steps - band)]
        for band in range(bands)
    ]
    return {"type": "banded", "diagonals": diagonals}


def _toeplitz(rng: random.Random, steps: int) -> Json:
    more = [
        float(f"{rng.uniform(-0.2, 0.7):.3f}") for _ in range(rng.randint(0, min(4, steps) - 1))
    ]
    return {"type": "toeplitz", "steps": steps, "coefficients": [1.0, *more]}


def _buffered(rng: random.Random, steps: int) -> Json:
    buffers = rng.randint(1, 3)
    return {
        "type": "buffered-toeplitz",
        "steps": steps,
        "decays": [float(f"{rng.random():.3f}") for _ in range(buffers)],
        "scales": [float(f"{rng.uniform(-0.3, 0.6):.3f}") for _ in range(buffers)],
    }


def _tree(rng: random.Random, steps: int) -> Json:
    return {"type": "tree", "steps": steps, "fan_out": rng.choice((2, 2, 3, 4))}


STRATEGY_MAKERS: Final[dict[str, Callable[[random.Random, int], Json]]] = {
    "dense": _dense,
    "banded": _banded,
    "toeplitz": _toeplitz,
    "buffered-toeplitz": _buffered,
    "tree": _tree,
}

PARTICIPATION_MAKERS: Final[dict[str, Callable[[random.Random, int], Json]]] = {
    "single": lambda _, __: {"type": "single"},
    "separated": lambda rng, _: {
        "type": "separated",
        "most": rng.randint(1, 4),
        "separation": rng.randint(1, 5),
    },
    "epochs": lambda rng, steps: {
        "type": "epochs",
        "epochs": rng.choice([part for part in range(1, steps + 1) if steps % part == 0]),
    },
    "balls-in-bins": lambda rng, steps: {
        "type": "balls-in-bins",
        "bins": rng.randint(1, min(steps, 4)),
    },
}


def _matrix(rng: random.Random) -> Json:
    steps = rng.randint(1, 12)
    return {
        "type": "matrix-gaussian",
        "noise_multiplier": _noise(rng),
        "strategy": STRATEGY_MAKERS[rng.choice(list(STRATEGY_MAKERS))](rng, steps),
        "participation": PARTICIPATION_MAKERS[rng.choice(list(PARTICIPATION_MAKERS))](rng, steps),
    }


def _geometric_selection(rng: random.Random) -> Json:
    return {
        "type": "truncated-geometric-selection",
        "epsilon": number(rng, 0.05, 4.0),
        "delta": number(rng, 1e-9, 1e-2),
        "partitions": rng.choice((1, 1, 2, 5)),
    }


def _threshold_selection(rng: random.Random) -> Json:
    scale = number(rng, 0.5, 8.0)
    return {
        "type": "threshold-selection",
        "noise": rng.choice(("gaussian", "laplace")),
        "noise_scale": scale,
        "threshold": float(f"{1.0 + scale * rng.uniform(1.0, 12.0):.4g}"),
        "partitions": rng.choice((1, 1, 2, 5)),
    }


MECHANISM_MAKERS: Final[dict[str, Maker]] = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "discrete-gaussian": _discrete("discrete-gaussian"),
    "truncated-discrete-gaussian": _truncated,
    "discrete-laplace": _discrete("discrete-laplace"),
    "gaussian-mixture": _mixture,
    "randomized-response": _randomized,
    "local": _bare("local"),
    "exponential": _bare("exponential"),
    "pure": _bare("pure"),
    "approximate": _approximate,
    "zcdp": _bare("zcdp", "rho"),
    "renyi": _renyi,
    "no-guarantee": _no_guarantee,
    "matrix-gaussian": _matrix,
    "truncated-geometric-selection": _geometric_selection,
    "threshold-selection": _threshold_selection,
}
"""Releases that are made of no other."""


def _mechanism(rng: random.Random) -> Json:
    """Return what is usually sampled: a noisy sum, and now and then anything."""
    if rng.random() < 0.15:
        return MECHANISM_MAKERS[rng.choice(list(MECHANISM_MAKERS))](rng)
    return rng.choice((_gaussian, _gaussian, _gaussian, _laplace, _discrete("discrete-gaussian")))(
        rng
    )


def _message(rng: random.Random) -> Json:
    return rng.choice((_bare("local"), _randomized, _laplace, _gaussian, _bare("pure")))(rng)


def _poisson(rng: random.Random) -> Json:
    rate = rng.choice((number(rng, 1e-4, 0.5),) * 8 + (0.0, 1.0))
    return {"type": "poisson", "rate": rate, "event": _mechanism(rng)}


def _batch_of(rng: random.Random) -> tuple[int, int]:
    population = round(number(rng, 2, 2000))
    return rng.randint(1, max(1, population // rng.choice((1, 4, 20)))), population


def _truncated_poisson(rng: random.Random) -> Json:
    batch, population = _batch_of(rng)
    rate = float(f"{min(1.0, batch / population * rng.uniform(0.3, 1.0)):.4g}")
    return {
        "type": "truncated-poisson",
        "rate": rate,
        "batch": batch,
        "population": population,
        "event": _mechanism(rng),
    }


def _batches(kind: str) -> Maker:
    def make(rng: random.Random) -> Json:
        batch, population = _batch_of(rng)
        return {"type": kind, "batch": batch, "population": population, "event": _mechanism(rng)}

    return make


def _client_sampled(rng: random.Random) -> Json:
    inner = rng.choice((_mechanism, _poisson, _batches("fixed-size")))(rng)
    if rng.random() < 0.4:
        inner = {"type": "repeat", "count": rng.randint(1, 10), "event": inner}
    return {"type": "client-sampled", "clients_rate": number(rng, 0.01, 1.0), "event": inner}


def _shuffled_batches(rng: random.Random) -> Json:
    return {"type": "shuffled-batches", "batches": rng.randint(1, 20), "event": _mechanism(rng)}


def _allocation(rng: random.Random) -> Json:
    steps = rng.randint(1, 12)
    chosen = 1 if rng.random() < 0.7 else rng.randint(1, steps)
    return {"type": "random-allocation", "steps": steps, "chosen": chosen, "event": _mechanism(rng)}


def _shuffle(rng: random.Random) -> Json:
    return {"type": "shuffle", "users": round(number(rng, 1, 20000)), "event": _message(rng)}


def _sampled_shuffle(rng: random.Random) -> Json:
    users, dimensions = round(number(rng, 2, 3000)), rng.randint(1, 50)
    chosen = rng.randint(1, dimensions)
    usual = users * chosen / dimensions
    return {
        "type": "sampled-shuffle",
        "users": users,
        "dimensions": dimensions,
        "chosen": chosen,
        "padded_to": max(1, round(usual * rng.uniform(0.8, 2.0))),
        "granularity": rng.choice(("coordinate", "tuple")),
        "selection": rng.choice(("oblivious", "data-dependent")),
        "overflow": rng.choice(("refuse", "cap")),
        "event": _message(rng),
    }


SAMPLER_MAKERS: Final[dict[str, Maker]] = {
    "poisson": _poisson,
    "truncated-poisson": _truncated_poisson,
    "fixed-size": _batches("fixed-size"),
    "with-replacement": _batches("with-replacement"),
    "client-sampled": _client_sampled,
    "shuffled-batches": _shuffled_batches,
    "random-allocation": _allocation,
    "shuffle": _shuffle,
    "sampled-shuffle": _sampled_shuffle,
}
"""Releases on a sample, or through a shuffler."""


def _round(rng: random.Random) -> Json:
    """Return one release, sampled or not."""
    makers = SAMPLER_MAKERS if rng.random() < 0.6 else MECHANISM_MAKERS
    return makers[rng.choice(list(makers))](rng)


def _usual_round(rng: random.Random) -> Json:
    return _round(rng) if rng.random() < 0.6 else rng.choice((_poisson, _mechanism))(rng)


def _repeat(rng: random.Random) -> Json:
    count = round(number(rng, 1, 2000))
    return {"type": "repeat", "count": count, "event": _usual_round(rng)}


def _compose(rng: random.Random) -> Json:
    makers = (_usual_round, _usual_round, _repeat)
    return {
        "type": "compose",
        "events": [rng.choice(makers)(rng) for _ in range(rng.choice((0, 1, 2, 2, 3, 4)))],
    }


def _group(rng: random.Random) -> Json:
    inner = rng.choice((_usual_round, _repeat, _compose))(rng)
    return {"type": "group", "size": rng.choice((1, 2, 2, 3, 4, 8)), "event": inner}


def _best_of(rng: random.Random) -> Json:
    distribution = rng.choice(("fixed", "poisson", "geometric", "logarithmic", "negative-binomial"))
    mean = float(rng.randint(1, 20)) if distribution == "fixed" else number(rng, 1.0, 40.0)
    event: Json = {
        "type": "best-of",
        "distribution": distribution,
        "mean": mean,
        "event": rng.choice((_usual_round, _repeat))(rng),
    }
    if distribution == "negative-binomial":
        event["shape"] = float(f"{rng.uniform(-0.9, 2.0):.3f}")
    return event


COMPOSITION_MAKERS: Final[dict[str, Maker]] = {
    "repeat": _repeat,
    "compose": _compose,
    "group": _group,
    "best-of": _best_of,
}

MAKERS: Final[dict[str, Maker]] = {**MECHANISM_MAKERS, **SAMPLER_MAKERS, **COMPOSITION_MAKERS}
"""One maker for each type of event."""


def random_event(rng: random.Random, kind: str | None = None) -> Json:
    """Return a random event with a release of a type in it, often inside compositions."""
    event = MAKERS[kind or rng.choice(list(MAKERS))](rng)
    while rng.random() < 0.4:
        match rng.choice(("repeat", "compose", "group", "best-of")):
            case "repeat":
                event = {"type": "repeat", "count": round(number(rng, 1, 500)), "event": event}
            case "compose":
                event = {"type": "compose", "events": [event, _usual_round(rng)]}
            case "group":
                event = {"type": "group", "size": rng.choice((2, 3, 5)), "event": event}
            case _:
                mean = number(rng, 1.0, 30.0)
                event = {
                    "type": "best-of",
                    "distribution": rng.choice(("poisson", "geometric", "logarithmic")),
                    "mean": mean,
                    "event": event,
                }
    return event


def random_question(rng: random.Random) -> Json:
    """Return what is asked of an event: epsilon at a delta, or delta at an epsilon."""
    relation = rng.choice(("add-remove", "replace-one", "zero-out"))
    if rng.random() < 0.6:
        delta = 0.0 if rng.random() < 0.1 else number(rng, 1e-10, 1e-2)
        return {"delta": delta, "neighbours": relation}
    epsilon = 0.0 if rng.random() < 0.1 else number(rng, 0.02, 10.0)
    return {"epsilon": epsilon, "neighbours": relation}
