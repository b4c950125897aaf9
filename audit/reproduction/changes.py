"""Likely mistakes near the described settings (delta, epochs, batch ...), most plausible first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..description.run_settings import RunSettings
from .reproduction import Change, once_an_epoch, phases_of, rate_of

_NOISES: Final = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0, 2.5, 3.0, 4.0)
_BATCHES: Final = (16, 32, 64, 100, 128, 200, 250, 256, 500, 512, 600, 1000, 1024, 2048, 4096)
_EPOCHS: Final = (1, 2, 3, 5, 10, 15, 20, 25, 30, 40, 45, 50, 60, 80, 90, 100, 200)
_RECORDS: Final = (10_000, 25_000, 50_000, 60_000, 100_000)


def usual_settings(settings: RunSettings) -> Iterator[tuple[Change, RunSettings, str]]:
    """Yield single usual values in the place of a described one, with the change and words for it.

    For settings of a single phase.  Epochs are kept when batch or records change.
    """
    (phase,) = phases_of(settings)
    for noise in _NOISES:
        if noise != phase.noise_multiplier:
            says = f"the noise multiplier {noise:g}, not {phase.noise_multiplier:.4g}"
            yield "other-noise", replace(settings, noise_multiplier=noise), says
    if phase.rate >= 1.0:
        return
    epochs = settings.epochs or phase.steps * phase.rate
    for count in _EPOCHS:
        steps = math.ceil(count / phase.rate - 1e-9)
        if steps != phase.steps:
            change: Change = "fewer-steps" if steps < phase.steps else "more-steps"
            says = f"{count} epochs, not {epochs:.4g}"
            yield change, replace(settings, steps=steps, epochs=None), says
    if settings.records is None or settings.batch is None:
        return
    for batch in _BATCHES:
        if batch != settings.batch and batch < settings.records:
            changed = _resampled(settings, batch, settings.records, epochs)
            yield "other-batch", changed, f"a batch of {batch:,}, not {settings.batch:,}"
    for records in _RECORDS:
        if records != settings.records and settings.batch < records:
            changed = _resampled(settings, settings.batch, records, epochs)
            yield "other-records", changed, f"{records:,} records, not {settings.records:,}"


def _resampled(settings: RunSettings, batch: int, records: int, epochs: float) -> RunSettings:
    steps = max(1, math.ceil(epochs * records / batch - 1e-9))
    return replace(
        settings, batch=batch, records=records, rate=batch / records, steps=steps, epochs=None
    )


@dataclass(frozen=True)
class Neighbour:
    """Changed `settings`, what was changed, and a `rank`: 0 for the most plausible change.

    `says` completes the sentence "The number is that of ...".
    """

    rank: int
    change: Change
    settings: RunSettings
    says: str


def neighbours_of(settings: RunSettings) -> tuple[Neighbour, ...]:
    """Return the neighbours of settings, the most plausible first, none of them twice.

    Steps within the last epoch are not among them: `last_epoch.py` solves for those.
    """
    candidates = [*_deltas(settings), *_relations(settings), *_amplification(settings)]
    if not settings.phases and phases_of(settings):
        candidates += [*_steps(settings), *_clients(settings), *_gradients(settings)]
        candidates += [*_batches(settings), *_noises(settings)]
        candidates += [
            Neighbour(11, change, changed, says)
            for change, changed, says in usual_settings(settings)
        ]
    elif settings.phases:
        candidates += _phases(settings)
    unique: dict[object, Neighbour] = {}
    for candidate in sorted(candidates, key=lambda each: each.rank):
        phases = phases_of(candidate.settings)
        if phases and candidate.settings != settings:
            key = (phases, candidate.settings.delta, candidate.settings.neighbours)
            unique.setdefault(key, candidate)
    unique.pop((phases_of(settings), settings.delta, settings.neighbours), None)
    return tuple(unique.values())


def _deltas(settings: RunSettings) -> Iterator[Neighbour]:
    def at(rank: int, change: Change, delta: float, says: str) -> Neighbour:
        return Neighbour(rank, change, replace(settings, delta=delta), f"delta {delta:.4g}, {says}")

    units = _units(settings)
    if units is not None and units > 1:
        yield at(1, "delta-one-over-records", 1.0 / units, f"one over {units:,}")
        yield at(7, "other-delta", float(units) ** -1.1, f"{units:,} to the power -1.1")
        yield at(8, "other-delta", 0.5 / units, f"one over twice {units:,}")
        yield at(8, "other-delta", 0.1 / units, f"one over ten times {units:,}")
    batches = _steps_per_epoch(settings)
    if batches is not None and batches > 1:
        says = f"one over the {batches:,} batches of an epoch"
        yield at(1, "delta-one-over-batches", 1.0 / batches, says)
    for rank, power in ((5, 5), (6, 6), (9, 4), (9, 7), (9, 8), (9, 3)):
        yield at(rank, "other-delta", float(f"1e-{power}"), "a usual one")


def _units(settings: RunSettings) -> int | None:
    if settings.unit == "record":
        return settings.records
    return settings.users if settings.unit == "user" else settings.silos


def _relations(settings: RunSettings) -> Iterator[Neighbour]:
    other = "add-remove" if settings.neighbours == "replace-one" else "replace-one"
    says = f"the relation {other}, not {settings.neighbours}"
    yield Neighbour(2, "other-relation", replace(settings, neighbours=other), says)


def _amplification(settings: RunSettings) -> Iterator[Neighbour]:
    phases = phases_of(settings)
    passes = once_an_epoch(settings)
    if not phases or passes is None:
        return
    says = "one unsampled release an epoch, without amplification"
    yield Neighbour(4, "no-amplification", passes, says)
    unsampled = replace(
        settings,
        method="full",
        rate=1.0,
        phases=tuple(replace(phase, rate=1.0) for phase in settings.phases),
    )
    yield Neighbour(4, "no-amplification", unsampled, "all steps without amplification by sampling")


def _steps(settings: RunSettings) -> Iterator[Neighbour]:
    steps = phases_of(settings)[0].steps

    def at(rank: int, change: Change, count: float, says: str) -> Iterator[Neighbour]:
        whole = round(count)
        if whole >= 1 and whole != steps:
            changed = replace(settings, steps=whole, epochs=None)
            yield Neighbour(rank, change, changed, f"{whole:,} steps, {says}, not {steps:,}")

    yield from at(8, "one-round", 1, "a single release")
    yield from at(3, "fewer-steps", steps / 2, "half of them")
    if settings.restarts > 1:
        each = math.ceil(steps / settings.restarts)
        yield from at(1, "one-round", each, "those between two starts of the accountant")
        yield from at(6, "more-steps", steps * settings.restarts, "all starts together")
    epoch = _steps_per_epoch(settings)
    if epoch is None or epoch <= 1:
        return
    epochs = settings.epochs or steps / epoch
    yield from at(4, "one-epoch", epoch, "one epoch")
    yield from at(1, "fewer-steps", steps - epoch, "an epoch less")
    yield from at(2, "more-steps", steps + epoch, "an epoch more")
    yield from at(5, "more-steps", math.ceil(epochs) * epoch, "whole epochs")
    if settings.records and settings.batch:
        full = settings.records // settings.batch
        yield from at(3, "fewer-steps", epochs * full, "without the last, smaller batches")
        yield from at(3, "more-steps", epochs * (full + 1), "with a smaller batch in each epoch")
    for epochs_less in (2, 5):
        yield from at(7, "fewer-steps", steps - epochs_less * epoch, f"{epochs_less} epochs less")


def _steps_per_epoch(settings: RunSettings) -> int | None:
    if settings.steps_per_epoch is not None:
        return settings.steps_per_epoch
    rate = rate_of(settings)
    return math.ceil(1.0 / rate - 1e-9) if rate is not None and rate < 1.0 else None


def _rated(settings: RunSettings, rate: float, steps: int | None = None) -> RunSettings | None:
    """Return the settings with another rate, and with other steps where they are given."""
    if not 0.0 < rate <= 1.0 or (steps is not None and steps < 1):
        return None
    method = (
        "full" if rate == 1.0 else ("unknown" if settings.method == "full" else settings.method)
    )
    changed = replace(settings, rate=rate, clients_rate=None, batch=None, method=method)
    return changed if steps is None else replace(changed, steps=steps, epochs=None)


def _clients(settings: RunSettings) -> Iterator[Neighbour]:
    (phase,) = phases_of(settings)
    rate, steps = phase.rate, phase.steps
    clients, inner = settings.clients_rate, settings.rate
    if inner is None and settings.batch and settings.records:
        inner = settings.batch / settings.records

    def at(rank: int, change: Change, other: float, says: str) -> Iterator[Neighbour]:
        changed = _rated(settings, other)
        if changed is not None and other != rate:
            yield Neighbour(rank, change, changed, f"the rate {other:.4g}, {says}, not {rate:.4g}")

    if clients is not None and inner is not None:
        says = "that of clients times that of records"
        yield from at(2, "clients-times-records", clients * inner, says)
        yield from at(2, "other-rate", clients, "that of the clients alone")
        yield from at(2, "other-rate", inner, "that of the records alone")
        yield from at(6, "other-rate", inner / clients, "that of records over that of clients")
    parties = settings.silos or (settings.users if settings.unit == "record" else None)
    if parties is not None and parties > 1:
        says = f"that among the records of one of {parties:,} clients"
        yield from at(3, "one-client", rate * parties, says)
        yield from at(
            4, "other-rate", rate / parties, f"that among the records of {parties:,} clients"
        )
        each = max(1, round(steps / parties))
        changed = replace(settings, steps=each, epochs=None)
        yield Neighbour(5, "one-client", changed, f"{each:,} steps, one client's part of {steps:,}")


def _gradients(settings: RunSettings) -> Iterator[Neighbour]:
    (phase,) = phases_of(settings)
    noise, rate, steps = phase.noise_multiplier, phase.rate, phase.steps
    k, m = settings.accumulation, settings.microbatches
    if k > 1:
        for other_rate, other_steps in (
            *((rate / k, steps), (rate * k, steps)),
            *((rate / k, steps * k), (rate * k, steps // k)),
        ):
            changed = _rated(settings, other_rate, other_steps)
            if changed is not None:
                says = (
                    f"the rate {other_rate:.4g} and {other_steps:,} steps, with {k} batches a step"
                )
                yield Neighbour(2, "accumulation", changed, says)
    for change, count in (("accumulation", k), ("microbatches", m)):
        if count > 1:
            for factor in (1.0 / count, float(count), count**-0.5, count**0.5):
                changed = replace(settings, noise_multiplier=noise * factor)
                says = f"the noise multiplier {noise * factor:.4g}, with {count} {change}"
                yield Neighbour(2, change, changed, says)  # type: ignore[arg-type]
    if m > 1 and settings.batch:
        changed = replace(settings, noise_multiplier=noise * m / settings.batch)
        says = (
            f"the noise multiplier {noise * m / settings.batch:.4g}, over the microbatches' number"
        )
        yield Neighbour(3, "microbatches", changed, says)


def _batches(settings: RunSettings) -> Iterator[Neighbour]:
    (phase,) = phases_of(settings)
    rate, steps = phase.rate, phase.steps
    if rate >= 1.0:
        return
    epoch = _steps_per_epoch(settings)
    if epoch:
        changed = _rated(settings, 1.0 / epoch)
        if changed is not None and abs(rate * epoch - 1.0) > 1e-9:
            says = f"the rate 1/{epoch:,} of whole batches, not {rate:.6g}"
            yield Neighbour(1, "other-rate", changed, says)
    for factor, words in ((2.0, "twice"), (0.5, "half of")):
        changed = _rated(settings, rate * factor, round(steps / factor))
        if changed is not None:
            says = f"{words} the batch, with as many epochs"
            yield Neighbour(6, "other-batch", changed, says)
        changed = _rated(settings, rate * factor)
        if changed is not None:
            yield Neighbour(6, "other-rate", changed, f"{words} the rate, with as many steps")


def _noises(settings: RunSettings) -> Iterator[Neighbour]:
    noise = phases_of(settings)[0].noise_multiplier
    for rank, factor in ((6, 2.0), (6, 0.5), (9, math.sqrt(2.0)), (9, math.sqrt(0.5))):
        changed = replace(settings, noise_multiplier=noise * factor)
        says = f"the noise multiplier {noise * factor:.4g}, not {noise:.4g}"
        yield Neighbour(rank, "other-noise", changed, says)


def _phases(settings: RunSettings) -> Iterator[Neighbour]:
    phases = settings.phases
    if len(phases) > 1:
        for kept, words in (
            (phases[:-1], "all phases but the last"),
            (phases[-1:], "the last phase"),
        ):
            yield Neighbour(2, "fewer-steps", replace(settings, phases=kept), f"{words} alone")
        yield Neighbour(
            3, "fewer-steps", replace(settings, phases=phases[:1]), "the first phase alone"
        )
