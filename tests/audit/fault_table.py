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

from . import ledgers, products
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
from .protocols import private, security

PLAIN = ev.Gaussian(ledgers.SIGMA)

CLASSICAL = math.sqrt(2 * math.log(1.25 / 1e-5)) / 2.0

TABLE: dict[str, tuple[Callable[[], ledgers.Records], ledgers.Change, ledgers.Change]] = {
    "unit-mismatch": (
        lambda: ledgers.grouped(size=1),
        lambda records: records,
        ledgers.opening(claim=ledgers.part(unit="record")),
    ),
    "sampled-unit": (
        sampled,
        ledgers.intents(sampling=ledgers.part(of="record")),
        ledgers.intents(sampling=ledgers.part(drawn_by="shared-secret")),
    ),
    "neighbour-mismatch": (
        lambda: ledgers.weighted(neighbours="replace-one"),
        ledgers.intents(sensitivity=ledgers.CLIP),
        ledgers.intents(sensitivity=2.5 * ledgers.CLIP),
    ),
    "delta-too-large": (
        ledgers.weighted,
        ledgers.opening(claim=ledgers.part(delta=0.02)),
        ledgers.opening(claim=ledgers.part(delta=0.0199)),
    ),
    "delta-not-compared": (
        ledgers.weighted,
        ledgers.opening(claim=ledgers.part(unit="record")),
        ledgers.also(
            ledgers.opening(claim=ledgers.part(unit="record")),
            ledgers.opening(population=Population(50, 5, records=500)),
        ),
    ),
    "shuffled-as-poisson": (
        sampled,
        ledgers.intents(sampling=ledgers.part(method="shuffled", batch=5, population=50)),
        ledgers.intents(sampling=ledgers.part(batch=5, population=50)),
    ),
    "rate-mismatch": (
        sampled,
        ledgers.intents(sampling=ledgers.part(batch=10, population=50)),
        ledgers.intents(sampling=ledgers.part(batch=5, population=50)),
    ),
    "known-sample": (
        sampled,
        view_of("server", ev.Poisson(0.1, PLAIN)),
        ledgers.also(
            ledgers.intents(sampling=ledgers.part(drawn_by="shared-secret")),
            view_of("server", ev.Poisson(0.1, PLAIN)),
        ),
    ),
    "missing-protocol": (masked, ledgers.opening(security=None), lambda _: ledgers.weighted()),
    "protocol-mismatch": (masked, security(parties=4), security(threshold=2)),
    "float-shares": (
        shared,
        ledgers.also(ledgers.opening(as_published=True), security(ring_bits=0)),
        ledgers.opening(as_published=True),
    ),
    "noise-in-multiples": (
        private,
        security(noise="multiples"),
        ledgers.intents(noise=ledgers.part(grid=ledgers.FINE / 2.0)),
    ),
    "fewest-below-noise": (
        masked,
        security(fewest=4),
        lambda _: ledgers.weighted(aggregation="masked", dropouts=1),
    ),
    "weak-key": (private, security(key_bits=1024), security(key_bits=2048)),
    "reach-contradicted": (ledgers.weighted, seeing("sum"), seeing("each")),
    "reach-of-nobody": (
        ledgers.weighted,
        ledgers.intents(reaches={"bystander": Reach("nothing")}),
        seeing("each"),
    ),
    "reach-missing": (ledgers.weighted, only_first(seeing("each")), seeing("each")),
    "reach-assumed": (lambda: ledgers.weighted(views=False), seeing("nothing"), seeing("each")),
    "visible-messages": (
        ledgers.weighted,
        ledgers.also(
            ledgers.intents(noise=Noise("randomized-response", 0.0)),
            event_of(ev.Shuffle(50, ev.RandomizedResponse(1.0, 4))),
        ),
        ledgers.also(
            ledgers.intents(noise=Noise("randomized-response", 0.0)),
            event_of(ev.RandomizedResponse(1.0, 4)),
        ),
    ),
    "sensitivity-below-facts": (
        ledgers.weighted,
        ledgers.intents(sensitivity=0.9 * ledgers.CLIP),
        ledgers.intents(sensitivity=1.1 * ledgers.CLIP),
    ),
    "weights-above-one": (
        ledgers.weighted,
        ledgers.intents(weights=Weights("uniform", 2.0)),
        ledgers.intents(weights=Weights("records", 1.0)),
    ),
    "unweighted-terms": (
        ledgers.weighted,
        ledgers.intents(weights=Weights("none", 1.0)),
        ledgers.also(
            ledgers.intents(weights=Weights("none", 5.0), sensitivity=5 * ledgers.CLIP),
            event_of(PLAIN),
        ),
    ),
    "private-bound": (
        ledgers.weighted,
        ledgers.intents(contribution=ledgers.part(source="private")),
        ledgers.intents(contribution=ledgers.part(source="public")),
    ),
    "adaptive-clip": (ledgers.weighted, clips("public"), clips("released", draws=2)),
    "clip-not-enforced": (
        ledgers.weighted,
        ledgers.releases(clip_enforced=False),
        ledgers.releases(values=20),
    ),
    "realised-normaliser": (
        ledgers.weighted,
        ledgers.releases(normaliser=Normaliser("realised", None)),
        ledgers.releases(normaliser=Normaliser("constant", 5.0)),
    ),
    "unusable-facts": (
        ledgers.weighted,
        ledgers.intents(noise=ledgers.part(std=0.0)),
        ledgers.intents(noise=ledgers.part(std=1.0)),
    ),
    "no-noise": (
        ledgers.weighted,
        ledgers.intents(noise=Noise("none", 0.0)),
        ledgers.intents(noise=ledgers.part(grid=0.0)),
    ),
    "wishart-noise": (
        lambda: gram_log(noisy(classes=0)),
        ledgers.intents(noise=Noise("wishart", 0.9, 5, 0.9, grid=2.0**-24, freedom=7)),
        ledgers.intents(noise=ledgers.part(tolerated_dropouts=0)),
    ),
    "dropouts": (
        ledgers.weighted,
        ledgers.releases(shares=4),
        ledgers.also(
            ledgers.releases(shares=4),
            ledgers.intents(
                noise=ledgers.part(
                    tolerated_dropouts=1, share_std=ledgers.SIGMA * ledgers.CLIP / 2.0 * (1 + 1e-15)
                )
            ),
        ),
    ),
    "extra-draws": (ledgers.weighted, ledgers.releases(draws=2), ledgers.releases(draws=1)),
    "seeded": (
        ledgers.weighted,
        ledgers.opening(randomness=Randomness("seeded")),
        ledgers.opening(randomness=Randomness("operating-system", "aes")),
    ),
    "reused-randomness": (
        ledgers.weighted,
        ledgers.releases(streams=(StreamRange("ab" * 16, 0, 100),)),
        ledgers.releases(streams=(StreamRange("ab" * 16, 7, 7),)),
    ),
    "unknown-cipher": (
        ledgers.weighted,
        ledgers.opening(randomness=Randomness("operating-system", "rot13")),
        ledgers.opening(randomness=Randomness("operating-system", "chacha20")),
    ),
    "moving-normaliser": (
        ledgers.weighted,
        at(4, normaliser=Normaliser("constant", 251.0)),
        ledgers.releases(normaliser=Normaliser("constant", 251.0)),
    ),
    "missing-rounds": (modelled, lambda records: [*records[:3], *records[5:]], lost_last(kept=3)),
    "uneven-rounds": (
        ledgers.weighted,
        ledgers.also(paired, lambda made: [*made[:5], *made[7:]]),
        paired,
    ),
    "recovery-mismatch": (ledgers.weighted, cut_off(next_round=22), cut_off()),
    "unknown-evaluation": (
        ledgers.weighted,
        ledgers.also(evaluated("declared-public"), lambda records: [*records[:39], *records[41:]]),
        evaluated("declared-public"),
    ),
    "repeated-evaluation": (
        ledgers.weighted,
        ledgers.also(evaluated("declared-public"), evaluated("declared-public")),
        evaluated("declared-public"),
    ),
    "missing-moments": (
        modelled,
        ledgers.opening(configuration={**CONFIGURATION, "data": {"normalisation": "private"}}),
        lambda records: records,
    ),
    "foreign-first-model": (
        modelled,
        ledgers.opening(
            configuration={**CONFIGURATION, "training": {"model": "logistic", "seed": 4}}
        ),
        lambda records: records,
    ),
    "foreign-length": (modelled, ledgers.releases(values=30), ledgers.releases(values=31)),
    "broken-lineage": (modelled, at(5, model_in=model(1)), lost_last(kept=3)),
    "broken-streams": (
        ledgers.weighted,
        at(4, streams=(StreamRange("ab" * 16, 1001, 2000),)),
        ledgers.also(  # behind an intent without a release, which can have drawn them
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
        ledgers.weighted,
        at(4, streams=(StreamRange("cd" * 16, 0, 1000),)),
        lost_last(kept=20),
    ),
    "repeated-release": (modelled, at(4, aggregate="a1"), lost_last(kept=3)),
    "close-mismatch": (modelled, ledgers.closing(model=model(3)), lost_last(kept=3)),
    "unrecorded-randomness": (
        ledgers.weighted,
        ledgers.releases(streams=()),
        ledgers.releases(shares=6),
    ),
    "noise-drawn-elsewhere": (
        ledgers.weighted,
        ledgers.also(
            ledgers.opening(party=Party("server", "a" * 64, "b")),
            ledgers.releases(drawn_here=0, streams=()),
        ),
        ledgers.opening(party=None),
    ),
    "noise-of-nobody": (
        ledgers.weighted,
        ledgers.releases(drawn_here=0, streams=()),
        ledgers.also(
            ledgers.opening(party=Party("silo-1", "a" * 64, "b")), ledgers.releases(drawn_here=1)
        ),
    ),
    "float-noise": (
        ledgers.weighted,
        ledgers.intents(noise=ledgers.part(grid=0.0)),
        ledgers.intents(noise=ledgers.part(grid=2.0**-30)),
    ),
    "classical-sigma": (
        lambda: ledgers.weighted(rounds=1),
        ledgers.also(
            ledgers.intents(
                noise=ledgers.part(
                    std=CLASSICAL * ledgers.CLIP, share_std=CLASSICAL * ledgers.CLIP / math.sqrt(5)
                )
            ),
            event_of(ev.Gaussian(CLASSICAL * (1 - 1e-15))),
            ledgers.opening(claim=ledgers.part(epsilon=2.0)),
        ),
        ledgers.also(
            ledgers.intents(
                noise=ledgers.part(
                    std=CLASSICAL * ledgers.CLIP, share_std=CLASSICAL * ledgers.CLIP / math.sqrt(5)
                )
            ),
            event_of(ev.Gaussian(CLASSICAL * (1 - 1e-15))),
            ledgers.opening(claim=ledgers.part(epsilon=2.1)),
        ),
    ),
    "more-rounds": (ledgers.weighted, one_more_round, lambda records: records),
    "off-plan": (
        ledgers.weighted,
        lambda records: [
            records[0],
            replace(records[1], event=ev.Gaussian(4.9)),  # type: ignore[type-var]
            *records[2:],
        ],
        ledgers.intents(phase="other"),
    ),
    "resumed-without-state": (ledgers.weighted, cut_off(forgets=True), cut_off()),
    "dangling": (
        ledgers.weighted,
        lambda records: [*records[:-2], records[-1]],
        lambda records: records,
    ),
    "incomplete": (ledgers.weighted, without_last, lambda records: records),
    "lost-intents": (
        ledgers.weighted,
        ledgers.also(ledgers.opening(fsync="never"), without_last),
        ledgers.opening(fsync="never"),
    ),
    "stopped-early": (
        ledgers.weighted,
        lambda records: [*records[:21], replace(records[-1], rounds=10)],  # type: ignore[type-var]
        lambda records: records[:21],
    ),
    "misplaced-records": (
        ledgers.weighted,
        lambda records: [*records, replace(records[1], round=21)],  # type: ignore[type-var]
        lambda records: records,
    ),
    "unannounced-release": (
        ledgers.weighted,
        ledgers.releases(intent=1000),
        lambda records: records,
    ),
    "no-guarantee": (
        ledgers.weighted,
        event_of(ev.NoGuarantee("an experiment")),
        view_of("silo", ev.NoGuarantee("not asked")),
    ),
    "as-published": (ledgers.weighted, ledgers.opening(as_published=True), lambda records: records),
    "private-evaluation": (
        ledgers.weighted,
        evaluated("private"),
        evaluated("private", ev.Gaussian(100.0)),
    ),
    "tuning-unaccounted": (
        ledgers.weighted,
        ledgers.opening(tuning=Tuning(10, public_only=False)),
        ledgers.opening(tuning=Tuning(10, public_only=True)),
    ),
    "close-under-reports": (
        ledgers.weighted,
        ledgers.closing(epsilon=lambda old: {**old, "server": 3.0}),
        ledgers.closing(epsilon=lambda old: {**old, "server": 30.0}),
    ),
    "plan-exceeds-claim": (
        ledgers.weighted,
        ledgers.also(
            ledgers.opening(claim=ledgers.part(epsilon=3.0)), lambda records: records[:11]
        ),
        ledgers.also(
            ledgers.opening(claim=ledgers.part(epsilon=3.9)), lambda records: records[:11]
        ),
    ),
    "undisclosed-observer": (
        lambda: ledgers.weighted(rule="records"),
        view_of("server", None),
        lambda _: view_of("server", None)(ledgers.weighted()),  # sees no more than the model
    ),
    "event-mismatch": (ledgers.weighted, event_of(ev.Gaussian(5.1)), event_of(ev.Gaussian(4.9))),
    "plan-below-target": (
        ledgers.weighted,
        ledgers.opening(configuration=searched(20.0)),
        ledgers.opening(configuration=searched(ledgers.upper(ledgers.weighted(), "model"))),
    ),
    "configuration-mismatch": (
        ledgers.weighted,
        ledgers.opening(configuration={"run": {"system": "uldp-avg"}}),
        ledgers.opening(configuration={"run": {"system": "uldp", "rounds": 20}}),
    ),
    "stripped-commitments": (
        ledgers.weighted,
        ledgers.opening(sealed={"train": ("residuals",)}),
        ledgers.also(
            ledgers.opening(sealed={"train": ("residuals",)}, dataset="d" * 64),
            ledgers.releases(sealed={"residuals": "e" * 64}),
        ),
    ),
    "product-mismatch": (
        lambda: products.product_log(products.noisy()),
        ledgers.intents(sensitivity=0.5),
        lambda _: products.product_log(products.noisy("replace-one"), "replace-one"),
    ),
    "uneven-product": (
        lambda: products.product_log(products.noisy()),
        lambda records: [*records[:3], *products.product_log(products.noisy(rank=2))[3:]],
        lambda _: products.product_log(products.noisy(), rounds=3),
    ),
    "weak-removal-key": (
        lambda: products.utility_log(products.noisy()),
        ledgers.opening(security=products.removal(5, key_bits=1024)),
        lambda _: products.utility_log(products.noisy(), key_bits=2048),
    ),
    "noise-may-be-known": (
        lambda: products.product_log(products.noisy(), aggregation="masked"),
        lambda _: products.utility_log(products.noisy()),
        lambda _: products.product_log(products.noisy()),
    ),
    "gram-mismatch": (
        lambda: gram_log(noisy()),
        ledgers.intents(noise=ledgers.part(grid=2.0**-30)),
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
        ledgers.weighted,
        ledgers.also(evaluated("private", ev.Poisson(0.1, ev.ZCDP(0.1))), without_last),
        ledgers.also(evaluated("private", ev.ZCDP(0.1)), without_last),
    ),
}
