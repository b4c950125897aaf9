"""From model to model: which one each round of a log starts from, and which it releases.

A round starts from the model that the last one released; or, where the run was cut off between that
release and its keeping, from the one that this release started from.  Nothing else can be taken up
(`fl.running.resumption.kept_model`).  A silo of a network that was away takes up what the others
released meanwhile, which stands in their logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, Literal

from ...accountant.records import RoundRelease
from ..ledger.entries import Ledger, SpentIntent
from ..ledger.phases import first_release, models_of, training_of

DIGEST_DIGITS_SHOWN: Final = 16
"""Digits of a digest that are shown."""


def digits(*digests: str | None) -> str:
    """Return the first digits of a digest; of several, all that are possible."""
    return " or ".join(str(digest)[:DIGEST_DIGITS_SHOWN] for digest in digests)


@dataclass(frozen=True)
class Break:
    """A line that starts from a model which nothing before it has left: `stated`, not `due`."""

    number: int
    round: int
    stated: str
    due: tuple[str, ...]


@dataclass
class Lineage:
    """The models of a log, in their order.

    `first` is the model that the first round of training starts from; `last` are those that the
    next one may start from, and the run may end with.  `named` counts the models that lines state,
    `unstated` those that they leave out.
    """

    first: str | None = None
    last: tuple[str, ...] = ()
    breaks: list[Break] = field(default_factory=list)
    named: int = 0
    unstated: int = 0
    _before: str | None = None

    @classmethod
    def of(cls, ledger: Ledger) -> Lineage:
        """Return the lineage of a log."""
        lineage = cls()
        for kind, spent in _steps(ledger):
            if kind == "start" and spent is not None:
                lineage._start(spent)
            elif kind == "release" and spent is not None:
                lineage._release(spent)
            elif _took_over(ledger):  # what others released while it was away
                lineage.last, lineage._before = (), None
            elif lineage._before is not None:
                lineage.last = tuple(dict.fromkeys((*lineage.last, lineage._before)))
        return lineage

    def _start(self, spent: SpentIntent) -> None:
        stated = spent.intent.model_in
        if stated is None:
            self.unstated += 1
            return
        self.named += 1
        if self.first is None:
            self.first = stated
        # Behind a release without a model any start is possible, so what comes next is taken as it
        # is.
        if not self.last:
            self.last = (stated,)
        if stated not in self.last:
            self.breaks.append(Break(spent.number, spent.intent.round, stated, self.last))

    def _release(self, spent: SpentIntent) -> None:
        release = first_release(spent)
        if release is None or release.model_out is None:
            self.unstated += 1
            self.last, self._before = (), None
            return
        self.named += 1
        self.last, self._before = (release.model_out,), spent.intent.model_in


def _took_over(ledger: Ledger) -> bool:
    """Return whether a log is of a silo of a network, which goes on from what others released."""
    party = ledger.opened.party
    return party is not None and party.silo is not None


def stateless(ledger: Ledger) -> tuple[int, ...]:
    """Return the lines of releases without a state, where others of their phase have one.

    What a system keeps with its model has the same arrays from its first round to its last.
    """
    lines: dict[str, list[int]] = {}
    stating: set[str] = set()
    for spent in models_of(ledger):
        for number, release in spent.releases:
            if release.state_out is None:
                lines.setdefault(spent.intent.phase, []).append(number)
            else:
                stating.add(spent.intent.phase)
    return tuple(sorted(number for phase in stating for number in lines.get(phase, [])))


def released_models(ledger: Ledger) -> dict[int, str]:
    """Return the digest of the model that each round released."""
    return {
        spent.intent.round: release.model_out
        for spent in training_of(ledger)
        if (release := first_release(spent)) is not None and release.model_out is not None
    }


def states_of(ledger: Ledger, model: str) -> frozenset[str]:
    """Return the digests of the states that were released with a model; none where none was.

    Where the last release left it, and did not start from it, that release's alone.
    """
    releases = [
        (spent.intent.model_in, release)
        for spent in models_of(ledger)
        if isinstance(release := first_release(spent), RoundRelease)
        and release.model_out is not None
    ]
    if releases and releases[-1][1].model_out == model and releases[-1][0] != model:
        releases = releases[-1:]
    with_it = [release.state_out for _, release in releases if release.model_out == model]
    return frozenset(state for state in with_it if state is not None)


def _steps(
    ledger: Ledger,
) -> Iterator[tuple[Literal["start", "release", "recovery"], SpentIntent | None]]:
    """Yield the intents and releases of training, and the recoveries, as their lines follow."""
    steps: list[tuple[int, Literal["start", "release", "recovery"], SpentIntent | None]] = []
    for spent in models_of(ledger):
        steps.append((spent.number, "start", spent))
        steps += [(number, "release", spent) for number, _ in spent.releases[:1]]
    steps += [(recovery.number, "recovery", None) for recovery in ledger.recoveries]
    for _, kind, begun in sorted(steps, key=itemgetter(0)):
        yield kind, begun
