"""One fault for each rule of the hazards: a log that has it, and one beside it that has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from privplan.accountant import events as ev
from privplan.accountant.records import (
    Noise,
    Normaliser,
    Party,
    Population,
    Randomness,
    Reach,
    RoundIntent,
    RoundRelease,
    StreamRange,
    Tuning,
    Weights,
)

from . import products
from .faults import (
    CONFIGURATION,
    at,
    clips,
    cut_off,
    evaluated,
    event_of,
    lost_last,
    masked,
    model,
    modelled,
    one_more_round,
    only_first,
    paired,
    sampled,
    searched,
    seeing,
    shared,
    view_of,
    without_last,
)
from .grams import gram_log, noisy
from .ledgers import (
    CLIP,
    FINE,
    SIGMA,
    Change,
    Records,
    also,
    closing,
    grouped,
    intents,
    opening,
    part,
    releases,
    upper,
    weighted,
)
from .protocols import private, security

PLAIN = ev.Gaussian(SIGMA)

CLASSICAL = math.sqrt(2 * math.log(1.25 / 1e-5)) / 2.0

TABLE: dict[str, tuple[Callable[[], Records], Change, Change]] = {
    "unit-mismatch": (
        lambda: grouped(size=1),
        lambda records: records,
        opening(claim=part(unit="record")),
    ),
    "sampled-unit": (
        sampled,
        intents(sampling=part(of="record")),
        intents(sampling=part(drawn_by="shared-secret")),
    ),
    "neighbour-mismatch": (
        lambda: weighted(neighbours="replace-one"),
        intents(sensitivity=CLIP),
        intents(sensitivity=2.5 * CLIP),
    ),
    "delta-too-large": (
        weighted,
        opening(claim=part(delta=0.02)),
        opening(claim=part(delta=0.0199)),
    ),
    "delta-not-compared": (
        weighted,
        opening(claim=part(unit="record")),
        also(
            opening(claim=part(unit="record")), opening(population=Population(50, 5, records=500))
        ),
    ),
    "shuffled-as-poisson": (
        sampled,
        intents(sampling=part(method="shuffled", batch=5, population=50)),
        intents(sampling=part(batch=5, population=50)),
    ),
    "rate-mismatch": (
        sampled,
        intents(sampling=part(batch=10, population=50)),
        intents(sampling=part(batch=5, population=50)),
    ),
    "known-sample": (
        sampled,
        view_of("server", ev.Poisson(0.1, PLAIN)),
        also(
            intents(sampling=part(drawn_by="shared-secret")),
            view_of("server", ev.Poisson(0.1, PLAIN)),
        ),
    ),
    "missing-protocol": (masked, opening(security=None), lambda _: weighted()),
    "protocol-mismatch": (masked, security(parties=4), security(threshold=2)),
    "float-shares": (
        shared,
        also(opening(as_published=True), security(ring_bits=0)),
        opening(as_published=True),
    ),
    "noise-in-multiples": (
        private,
        security(noise="multiples"),
        intents(noise=part(grid=FINE / 2.0)),
    ),
    "fewest-below-noise": (
        masked,
        security(fewest=4),
        lambda _: weighted(aggregation="masked", dropouts=1),
    ),
    "weak-key": (private, security(key_bits=1024), security(key_bits=2048)),
    "reach-contradicted": (weighted, seeing("sum"), seeing("each")),
    "reach-of-nobody": (weighted, intents(reaches={"bystander": Reach("nothing")}), seeing("each")),
    "reach-missing": (weighted, only_first(seeing("each")), seeing("each")),
    "reach-assumed": (lambda: weighted(views=False), seeing("nothing"), seeing("each")),
    "visible-messages": (
        weighted,
        also(
            intents(noise=Noise("randomized-response", 0.0)),
            event_of(ev.Shuffle(50, ev.RandomizedResponse(1.0, 4))),
        ),
        also(
            intents(noise=Noise("randomized-response", 0.0)),
            event_of(ev.RandomizedResponse(1.0, 4)),
        ),
    ),
    "sensitivity-below-facts": (
        weighted,
        intents(sensitivity=0.9 * CLIP),
        intents(sensitivity=1.1 * CLIP),
    ),
    "weights-above-one": (
        weighted,
        intents(weights=Weights("uniform", 2.0)),
        intents(weights=Weights("records", 1.0)),
    ),
    "unweighted-terms": (
        weighted,
        intents(weights=Weights("none", 1.0)),
        also(intents(weights=Weights("none", 5.0), sensitivity=5 * CLIP), event_of(PLAIN)),
    ),
    "private-bound": (
        weighted,
        intents(contribution=part(source="private")),
        intents(contribution=part(source="public")),
    ),
    "adaptive-clip": (weighted, clips("public"), clips("released", draws=2)),
    "clip-not-enforced": (weighted, releases(clip_enforced=False), releases(values=20)),
    "realised-normaliser": (
        weighted,
        releases(normaliser=Normaliser("realised", None)),
        releases(normaliser=Normaliser("constant", 5.0)),
    ),
    "unusable-facts": (weighted, intents(noise=part(std=0.0)), intents(noise=part(std=1.0))),
    "no-noise": (weighted, intents(noise=Noise("none", 0.0)), intents(noise=part(grid=0.0))),
    "wishart-noise": (
        lambda: gram_log(noisy(classes=0)),
        intents(noise=Noise("wishart", 0.9, 5, 0.9, grid=2.0**-24, freedom=7)),
        intents(noise=part(tolerated_dropouts=0)),
    ),
    "dropouts": (
        weighted,
        releases(shares=4),
        also(
            releases(shares=4),
            intents(noise=part(tolerated_dropouts=1, share_std=SIGMA * CLIP / 2.0 * (1 + 1e-15))),
        ),
    ),
    "extra-draws": (weighted, releases(draws=2), releases(draws=1)),
    "seeded": (
        weighted,
        opening(randomness=Randomness("seeded")),
        opening(randomness=Randomness("operating-system", "aes")),
    ),
    "reused-randomness": (
        weighted,
        releases(streams=(StreamRange("ab" * 16, 0, 100),)),
        releases(streams=(StreamRange("ab" * 16, 7, 7),)),
    ),
    "unknown-cipher": (
        weighted,
        opening(randomness=Randomness("operating-system", "rot13")),
        opening(randomness=Randomness("operating-system", "chacha20")),
    ),
    "moving-normaliser": (
        weighted,
        at(4, normaliser=Normaliser("constant", 251.0)),
        releases(normaliser=Normaliser("constant", 251.0)),
    ),
    "missing-rounds": (modelled, lambda records: [*records[:3], *records[5:]], lost_last(kept=3)),
    "uneven-rounds": (weighted, also(paired, lambda made: [*made[:5], *made[7:]]), paired),
    "recovery-mismatch": (weighted, cut_off(next_round=22), cut_off()),
    "unknown-evaluation": (
        weighted,
        also(evaluated("declared-public"), lambda records: [*records[:39], *records[41:]]),
        evaluated("declared-public"),
    ),
    "repeated-evaluation": (
        weighted,
        also(evaluated("declared-public"), evaluated("declared-public")),
        evaluated("declared-public"),
    ),
    "missing-moments": (
        modelled,
        opening(configuration={**CONFIGURATION, "data": {"normalisation": "private"}}),
        lambda records: records,
    ),
    "foreign-first-model": (
        modelled,
        opening(configuration={**CONFIGURATION, "training": {"model": "logistic", "seed": 4}}),
        lambda records: records,
    ),
    "foreign-length": (modelled, releases(values=30), releases(values=31)),
    "broken-lineage": (modelled, at(5, model_in=model(1)), lost_last(kept=3)),
    "broken-streams": (
        weighted,
        at(4, streams=(StreamRange("ab" * 16, 1001, 2000),)),
        also(  # behind an intent without a release, which can have drawn them
            lambda records: [*records[:4], *records[5:]],
            lambda records: [
                replace(one, intent=one.intent - 1)
                if isinstance(one, RoundRelease) and one.round > 2
                else one
                for one in records
            ],
        ),
    ),
    "missing-recovery": (
        weighted,
        at(4, streams=(StreamRange("cd" * 16, 0, 1000),)),
        lost_last(kept=20),
    ),
    "repeated-release": (modelled, at(4, aggregate="a1"), lost_last(kept=3)),
    "close-mismatch": (modelled, closing(model=model(3)), lost_last(kept=3)),
    "unrecorded-randomness": (weighted, releases(streams=()), releases(shares=6)),
    "noise-drawn-elsewhere": (
        weighted,
        also(opening(party=Party("server", "a" * 64, "b")), releases(drawn_here=0, streams=())),
        opening(party=None),
    ),
    "noise-of-nobody": (
        weighted,
        releases(drawn_here=0, streams=()),
        also(opening(party=Party("silo-1", "a" * 64, "b")), releases(drawn_here=1)),
    ),
    "float-noise": (weighted, intents(noise=part(grid=0.0)), intents(noise=part(grid=2.0**-30))),
    "classical-sigma": (
        lambda: weighted(rounds=1),
        also(
            intents(noise=part(std=CLASSICAL * CLIP, share_std=CLASSICAL * CLIP / math.sqrt(5))),
            event_of(ev.Gaussian(CLASSICAL * (1 - 1e-15))),
            opening(claim=part(epsilon=2.0)),
        ),
        also(
            intents(noise=part(std=CLASSICAL * CLIP, share_std=CLASSICAL * CLIP / math.sqrt(5))),
            event_of(ev.Gaussian(CLASSICAL * (1 - 1e-15))),
            opening(claim=part(epsilon=2.1)),
        ),
    ),
    "more-rounds": (weighted, one_more_round, lambda records: records),
    "off-plan": (
        weighted,
        lambda records: [
            records[0],
            replace(records[1], event=ev.Gaussian(4.9)),  # type: ignore[type-var]
            *records[2:],
        ],
        intents(phase="other"),
    ),
    "resumed-without-state": (weighted, cut_off(forgets=True), cut_off()),
    "dangling": (weighted, lambda records: [*records[:-2], records[-1]], lambda records: records),
    "incomplete": (weighted, without_last, lambda records: records),
    "lost-intents": (weighted, also(opening(fsync="never"), without_last), opening(fsync="never")),
    "stopped-early": (
        weighted,
        lambda records: [*records[:21], replace(records[-1], rounds=10)],  # type: ignore[type-var]
        lambda records: records[:21],
    ),
    "misplaced-records": (
        weighted,
        lambda records: [*records, replace(records[1], round=21)],  # type: ignore[type-var]
        lambda records: records,
    ),
    "unannounced-release": (weighted, releases(intent=1000), lambda records: records),
    "no-guarantee": (
        weighted,
        event_of(ev.NoGuarantee("an experiment")),
        view_of("silo", ev.NoGuarantee("not asked")),
    ),
    "as-published": (weighted, opening(as_published=True), lambda records: records),
    "private-evaluation": (
        weighted,
        evaluated("private"),
        evaluated("private", ev.Gaussian(100.0)),
    ),
    "tuning-unaccounted": (
        weighted,
        opening(tuning=Tuning(10, public_only=False)),
        opening(tuning=Tuning(10, public_only=True)),
    ),
    "close-under-reports": (
        weighted,
        closing(epsilon=lambda old: {**old, "server": 3.0}),
        closing(epsilon=lambda old: {**old, "server": 30.0}),
    ),
    "plan-exceeds-claim": (
        weighted,
        also(opening(claim=part(epsilon=3.0)), lambda records: records[:11]),
        also(opening(claim=part(epsilon=3.9)), lambda records: records[:11]),
    ),
    "undisclosed-observer": (
        lambda: weighted(rule="records"),
        view_of("server", None),
        lambda _: view_of("server", None)(weighted()),  # sees no more than the model
    ),
    "event-mismatch": (weighted, event_of(ev.Gaussian(5.1)), event_of(ev.Gaussian(4.9))),
    "plan-below-target": (
        weighted,
        opening(configuration=searched(20.0)),
        opening(configuration=searched(upper(weighted(), "model"))),
    ),
    "configuration-mismatch": (
        weighted,
        opening(configuration={"run": {"system": "uldp-avg"}}),
        opening(configuration={"run": {"system": "uldp", "rounds": 20}}),
    ),
    "stripped-commitments": (
        weighted,
        opening(sealed={"train": ("residuals",)}),
        also(
            opening(sealed={"train": ("residuals",)}, dataset="d" * 64),
            releases(sealed={"residuals": "e" * 64}),
        ),
    ),
    "product-mismatch": (
        lambda: products.product_log(products.noisy()),
        intents(sensitivity=0.5),
        lambda _: products.product_log(products.noisy("replace-one"), "replace-one"),
    ),
    "uneven-product": (
        lambda: products.product_log(products.noisy()),
        lambda records: [*records[:3], *products.product_log(products.noisy(rank=2))[3:]],
        lambda _: products.product_log(products.noisy(), rounds=3),
    ),
    "weak-removal-key": (
        lambda: products.utility_log(products.noisy()),
        opening(security=products.removal(5, key_bits=1024)),
        lambda _: products.utility_log(products.noisy(), key_bits=2048),
    ),
    "noise-may-be-known": (
        lambda: products.product_log(products.noisy(), aggregation="masked"),
        lambda _: products.utility_log(products.noisy()),
        lambda _: products.product_log(products.noisy()),
    ),
    "gram-mismatch": (
        lambda: gram_log(noisy()),
        intents(noise=part(grid=2.0**-30)),
        lambda _: gram_log(noisy(bits=12)),
    ),
    "uneven-gram": (
        lambda: gram_log(noisy(), rounds=2),
        lambda records: [
            replace(record, contribution=noisy(label_weight=2.0).contribution)
            if isinstance(record, RoundIntent) and record.round == 2
            else record
            for record in records
        ],
        lambda _: gram_log(noisy(), rounds=3),
    ),
    "no-number": (
        weighted,
        also(evaluated("private", ev.Poisson(0.1, ev.ZCDP(0.1))), without_last),
        also(evaluated("private", ev.ZCDP(0.1)), without_last),
    ),
}
