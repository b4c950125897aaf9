"""Random facts of rounds, from a seed, and logs whose intents state what reaches whom."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant.records import Contribution, Noise, Reach, Sampling, Security, Weights
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import RunSetting

NAMES = (
    *("model", "server", "silo", "silo-with-records"),
    *("server+1", "server+2", "server+1-with-records", "server+3-with-records"),
)


def drawn_of(rng: np.random.Generator, *options: Any) -> Any:
    """Return one of the options at random."""
    return options[int(rng.integers(len(options)))]


def strange_reach(rng: np.random.Generator) -> Reach:
    """Return a reach whose every field is drawn at random."""
    drawn = partial(drawn_of, rng)
    return Reach(
        drawn("sum", "each", "sum-less-own", "shuffled", "one-share", "nothing"),
        holds=drawn("nothing", "part", "weights"),
        colluders=drawn(0, 1, 4, 9),
        dropouts=drawn(0, 1, 5),
        knows_sample=drawn(False, True),
        also=drawn((), ("sizes",), ("identities", "index-sets")),
        users=drawn(None, 100),
        dimensions=drawn(None, 39),
        chosen=drawn(None, 3),
    )


def drawn(seed: int) -> tuple[RoundFacts, RunSetting]:
    """Return the facts of a round that some log may state, with a protocol that may fit them."""
    own = random.Random(seed)
    silos = own.choice((1, 2, 3, 5, 8))
    relation = own.choice(("add-remove", "replace-one", "zero-out"))
    aggregation = own.choice(("plain", "plain", "masked", "masked", "private-weighting"))
    private = aggregation == "private-weighting"
    family = own.choice(("gaussian",) * 6 + ("laplace", "discrete-gaussian", "discrete-laplace"))
    unit = own.choice(("user", "user", "user", "record", "silo"))
    terms = own.choice(("unit", "unit", "unit", "silo-delta", "whole"))
    rule = "records" if private else own.choice(("none", "uniform", "records"))
    shares = own.choice((silos, silos, silos, 1, silos + 1))
    if private and own.random() < 0.8:
        silos, shares, family, unit, terms = (
            max(silos, 2),
            max(silos, 2),
            "gaussian",
            "user",
            "unit",
        )
    lost = own.choice((0, 0, 0, 1)) if shares > 2 and not private else 0
    grid = 2.0**-60 if private else own.choice((0.0, 2.0**-24))
    if family.startswith("discrete") and not grid:
        grid = 2.0**-24
    noise = Noise(
        family,  # type: ignore[arg-type]
        own.uniform(0.3, 4.0),
        shares,
        own.uniform(0.2, 3.0) if shares > 1 else 0.0,
        lost,
        own.choice((1, 1, 1, 4)),
        grid,
    )
    method = own.choice(("none", "none", "poisson", "fixed-size", "shuffled", "truncated-poisson"))
    drawers = ("server", "silos", "shared-secret", "oblivious-transfer")
    sampling = Sampling()
    if method != "none":
        batch = 10 if method != "poisson" else None
        sampling = Sampling(
            method,  # type: ignore[arg-type]
            own.choice((unit, unit, unit, "record")),
            0.2 if method != "shuffled" else 1.0,
            own.choice(drawers),
            batch,
            None if batch is None else 40,
            own.choice((None, "each-silo", "all-silos")),
        )
    security = None
    if aggregation == "masked" and own.random() < 0.85:
        told = own.choice((0, 0, 1, 2))
        least = max(silos - lost, 1)
        security = Security(
            *("pairwise-masks", silos, least, min(least, silos), max(silos - 1, 0), 64),
            colluders=told,
        )
    elif private and own.random() < 0.9:
        security = Security(
            *("private-weighting", silos, silos),
            key_bits=own.choice((3072, 3072, 1024)),
            count_limit=41,
            count_cap=40 // silos,
            records_per_count=1,
            slots=10,
            chosen=2,
        )
    norm = "l1" if "laplace" in family and own.random() < 0.9 else "l2"
    contribution = Contribution(own.uniform(0.1, 2.0), norm, unit, terms)  # type: ignore[arg-type]
    stated = max(shares - lost, 1)
    facts = RoundFacts(
        contribution,
        noise,
        Weights(rule, own.choice((1.0, 1.0, 1.0, 1.5))),  # type: ignore[arg-type]
        sampling,
        own.uniform(0.0, 2.0),
        ev.Gaussian(1.0),
        own.choice((stated, stated, max(stated - 1, 1))),
        noise.draws,
        noise.draws,
        shares,
        own.random() < 0.2,
    )
    group = own.choice((1, 1, 1, 8)) if unit == "record" else 1
    promised: Any = own.choice((unit, unit, "record" if unit == "user" else unit))
    setting = RunSetting(
        "user" if group > 1 else promised,
        relation,  # type: ignore[arg-type]
        group,
        silos,
        aggregation,
        False,
        50,
        None,
        security,
    )
    return facts, setting
