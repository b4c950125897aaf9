"""What the scores of canaries show: the coins are opened once, and so many of them are guessed.

The number of guesses was fixed when the canaries were drawn.  Half of them call the canaries with
the highest scores in, and the other half those with the lowest out.  How many are right bounds the
epsilon of any mechanism from below; where the claimed mechanism is named, the epsilon of its
trade-off curve as well, which holds however canaries depend on each other.

The claim tier of `audit attack` is not taken: it needs canaries that do not disturb each other, and
examples share one model.  Canary gradients, each with coordinates of its own, do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import account
from ...accountant.arrays import BoolArray
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import regular_content
from ...accountant.risk.trade_off import trade_off
from ...fl.log.hash_chain import canonical, digest
from ..adapters.canary_files import COINS_FILE, CanaryCoins
from ..counts import CountedEpsilon, one_run_f_dp
from ..measurement import NOT_PROOF
from ..statistics.one_run import mahloujifar_rejects, steinke, steinke_p_value
from . import canary_manifest
from .canary_folder import (
    ID,
    INSERT,
    MOST_TABLE_BYTES,
    SCORE,
    CanaryFolder,
    inserted,
    score_content,
    text_format,
    units_of,
)
from .canary_score_files import Scores, ordered_scores
from .example_files import ExampleTable, read_examples
from .guesses import WITHOUT_SHADOWS, correct
from .score_audit import ALPHA, CONTRADICTED_AT

NEIGHBOURS: Final = "add-remove"

CHAIN_ALONE: Final = "chain only"
AGAINST_HEAD: Final = "chain and head"

GRADIENTS: Final = (
    "A model's answers to examples show little: in a training of digits with a proven epsilon of "
    "7.4 they showed 0.5, and 1.9 to 3.5 without protection. Canary gradients, which are seen in "
    "every step, showed 2.2 of any mechanism there, and 5.4 by the claim tier: "
    "privplan.logged(..., canaries=1000) puts them in, and privplan audit attack judges them."
)

ASSUMES: Final = (
    "the training had the canaries of the file to insert, all of them and no other, and was made "
    "once",
    "scores are what the trained model says of each canary: who or what made them did not look at "
    "the coins, nor at the file to insert",
    "these are the first scores: " + canary_manifest.COPIES,
)


@dataclass(frozen=True)
class CanaryAudit:
    """What guesses about the coins of inserted examples show of the epsilon of a training.

    - `epsilon_lower`: a lower bound at `delta` for any mechanism, at `confidence`.
    - `mechanism`: what they show of the claimed mechanism's trade-off curve; None without one.
    - `contradicted`: whether the claim is rejected at 1/1,000 over all tests of the call;
      `unusual`: whether it is at 5 % alone.  None where nothing is claimed.
    - `checked`: `CHAIN_ALONE`, or `AGAINST_HEAD` where a head was kept elsewhere.
    """

    kind: str
    unit: str
    canaries: int
    into: int
    guesses: int
    right: int
    delta: float
    confidence: float
    epsilon_lower: float
    head: str
    checked: str
    claimed: float | None = None
    contradicted: bool | None = None
    unusual: bool | None = None
    mechanism: CountedEpsilon | None = None

    neighbours: ClassVar[str] = NEIGHBOURS
    observer: ClassVar[str] = "model"
    assumes: ClassVar[tuple[str, ...]] = ASSUMES
    note: ClassVar[str] = NOT_PROOF
    gradients: ClassVar[str] = GRADIENTS

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object, with what it assumes and what a low number is worth."""
        return {
            "kind": self.kind,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "observer": self.observer,
            "canaries": self.canaries,
            "in": self.into,
            "guesses": self.guesses,
            "correct": self.right,
            "epsilon": {
                "lower": self.epsilon_lower,
                "confidence": self.confidence,
                "delta": self.delta,
            },
            "claimed": self.claimed,
            "contradicted": self.contradicted,
            "unusual": self.unusual,
            "mechanism": None if self.mechanism is None else self.mechanism.to_json(),
            "checked": self.checked,
            "head": self.head,
            "assumes": list(self.assumes),
            "note": self.note,
            "gradients": self.gradients,
        }


def _require_same_unit(claimed: str, drawn: str) -> None:
    """Raise `InvalidInput` for a claim about another unit than coins were thrown for."""
    validate.choice(("record", "user"), unit=claimed)
    if claimed != drawn:
        raise InvalidInput(
            f"The claim is about one {claimed}, and a coin was thrown for each {drawn}.",
            "A user of several records shows more than a record may, and a record less.",
            f"Say --unit {drawn} if the claim is about that; or leave it out, and take the bound "
            "alone.",
        )


def score_canaries(
    folder: str | Path,
    scores: Scores,
    *,
    delta: float,
    claimed: float | None = None,
    event: ev.Event | None = None,
    unit: str = "record",
    head: str | None = None,
) -> CanaryAudit:
    """Open the coins of a folder for these scores, once, and return what they show.

    - `scores`: of every canary, in or out: by id, or in the order of the rows to score; the higher,
      the surer is the model of it.  The scores of a user's records are added.
    - `claimed`: the epsilon that is claimed at `delta`; `event`: the claimed mechanism, all of it;
      `unit`: whom these are about, a record or a user.
    - `head`: a head of the manifest that was kept elsewhere.

    That they are opened, and for which scores, is on the disk before anything is shown.  Other
    scores get no bound afterwards; the same ones do as long as no answer was written down.

    Range: delta in [0, 1), above 0 with an event; claimed 0 or above.  Raises `InvalidInput` for
    scores that are missing, unknown or no numbers, or that do not rank canaries; for files that are
    not those that were drawn; and for canaries that were opened before.  `Unsupported` for an event
    without noise.
    Source: Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Theorem 5.2; Mahloujifar, Melis,
    Chaudhuri 2024, arXiv 2410.22235, Theorem 3.2.
    """
    validate.probability_below_one(delta=delta)
    if claimed is not None:
        validate.non_negative(claimed=claimed)
    with closing(canary_manifest.OpenManifest(Path(folder))) as opening:
        if head is not None:
            opening.manifest.require_head(head)
        if claimed is not None or event is not None:
            _require_same_unit(unit, str(opening.manifest.drawn["unit"]))
        canaries = CanaryFolder(Path(folder), opening.manifest)
        judge = _Judge.of(canaries, delta, claimed, event)
        score_content(canaries)
        suffix = opening.manifest.drawn["suffix"]
        table = read_examples(canaries.folder / f"{SCORE}{suffix}", text_format(canaries))
        rows = ordered_scores(scores, table.columns[ID])
        by_unit = np.bincount(units_of(table.columns), rows).astype(np.float64)
        coins = _coins(canaries, table)
        _open(opening, {**judge.stated(), "scores": digest(canonical(rows.tolist()))})
        audit = judge.of_right(
            correct(by_unit, coins, judge.guesses, WITHOUT_SHADOWS),
            int(coins.sum()),
            opening.manifest.head,
            CHAIN_ALONE if head is None else AGAINST_HEAD,
        )
        opening.add(
            canary_manifest.JUDGED,
            {
                "correct": audit.right,
                "epsilon_lower": repr(audit.epsilon_lower),
                "confidence": repr(audit.confidence),
                "contradicted": audit.contradicted,
            },
        )
        return audit


def _open(opening: canary_manifest.OpenManifest, asked: Mapping[str, object]) -> None:
    """Write down that the coins are opened for this; raise `InvalidInput` if they were before."""
    before = opening.manifest.opened
    if before is None:
        opening.add(canary_manifest.OPENED, asked)
        return
    judged = opening.manifest.judged
    same = {name: value for name, value in before.items() if name != "type"} == asked
    if judged is None and same:
        return  # it was cut off before it said anything
    shown = "" if judged is None else f" They showed epsilon >= {judged['epsilon_lower']}."
    raise InvalidInput(
        f"These canaries were opened before.{shown}",
        "Of several scores the best would be chosen, and a bound holds for the first ones alone.",
        "Draw new canaries and train again.",
    )


@dataclass(frozen=True)
class _Judge:
    """What scores are judged by, all of it fixed before the coins are opened."""

    kind: str
    unit: str
    canaries: int
    guesses: int
    delta: float
    claimed: float | None
    event: ev.Event | None

    @classmethod
    def of(
        cls, canaries: CanaryFolder, delta: float, claimed: float | None, event: ev.Event | None
    ) -> _Judge:
        """Return it; raises for an event that no test can be made of, before anything is opened."""
        if event is not None and delta == 0.0:
            raise InvalidInput(
                "`delta` must be above 0 where a mechanism is named.",
                "Few mechanisms have an epsilon at delta 0.",
                "Give delta=1e-5.",
            )
        if event is not None and claimed is None:
            claimed = account(event, delta=delta, neighbours=NEIGHBOURS).epsilon.upper
            if not math.isfinite(claimed):
                raise InvalidInput(
                    "The named mechanism has no finite epsilon at this delta.",
                    "A claim that allows everything cannot be contradicted.",
                    "Leave the event out, or give a larger delta.",
                )
        drawn = canaries.manifest.drawn
        judge = cls(
            str(drawn["kind"]),
            str(drawn["unit"]),
            validate.count(canaries=drawn["canaries"]),
            validate.count(guesses=drawn["guesses"]),
            delta,
            claimed,
            event,
        )
        if event is not None:
            judge._of_mechanism(judge.guesses // 2)
        return judge

    def stated(self) -> dict[str, object]:
        """Return what stands in the line of the opening."""
        return {
            "delta": repr(self.delta),
            "claimed": None if self.claimed is None else repr(self.claimed),
            "event": None if self.event is None else self.event.to_json(),
        }

    def of_right(self, right: int, into: int, head: str, checked: str) -> CanaryAudit:
        """Return the bounds of so many right guesses, and the verdict on the claim."""
        m, r, level = self.canaries, self.guesses, ALPHA / self._tests
        mechanism = None if self.event is None else self._of_mechanism(right)
        contradicted = unusual = None
        if self.claimed is not None:
            chance = steinke_p_value(m, r, right, epsilon=self.claimed, delta=self.delta)
            strict = CONTRADICTED_AT / self._tests
            contradicted = chance <= strict or self._rejects(right, strict)
            unusual = not contradicted and (chance <= level or self._rejects(right, level))
        return CanaryAudit(
            kind=self.kind,
            unit=self.unit,
            canaries=m,
            into=into,
            guesses=r,
            right=right,
            delta=self.delta,
            confidence=1.0 - level,
            epsilon_lower=steinke(m, r, right, delta=self.delta, alpha=level),
            head=head,
            checked=checked,
            claimed=self.claimed,
            contradicted=contradicted,
            unusual=unusual,
            mechanism=mechanism,
        )

    @property
    def _tests(self) -> int:
        """How many tests share the levels: that of any mechanism, and that of the named one."""
        return 1 if self.event is None else 2

    def _rejects(self, right: int, level: float) -> bool:
        if self.event is None:
            return False
        shape = trade_off(self.event, NEIGHBOURS)
        return mahloujifar_rejects(self.canaries, self.guesses, right, shape, level)

    def _of_mechanism(self, right: int) -> CountedEpsilon:
        assert self.event is not None
        return one_run_f_dp(
            self.canaries,
            self.guesses,
            right,
            self.event,
            delta=self.delta,
            neighbours=NEIGHBOURS,
            confidence=1.0 - ALPHA / self._tests,
        )


def _coins(canaries: CanaryFolder, table: ExampleTable) -> BoolArray:
    """Return the coins; raises `InvalidInput` unless they are those that were committed to."""
    folder, drawn = canaries.folder, canaries.manifest.drawn
    coins = CanaryCoins.read(folder)
    units = int(units_of(table.columns).max()) + 1
    same = coins.commitment == drawn["commitment"]
    if not same or {len(coins), units} != {drawn["canaries"]}:
        raise InvalidInput(
            f"{folder / COINS_FILE} does not hold the coins that the manifest committed to.",
            "Coins that are chosen after the training prove what one likes.",
            "Take the file from a copy that nobody has touched.",
        )
    path = folder / f"{INSERT}{drawn['suffix']}"
    if path.exists():
        user = None if drawn["user"] is None else str(drawn["user"])
        expected = inserted(table, coins.into, user).content(
            str(drawn["suffix"]), text_format(canaries)
        )
        try:
            same = regular_content(path, MOST_TABLE_BYTES, within=folder) == expected
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
        if not same:
            raise InvalidInput(
                f"{path} is not the file that was drawn.",
                "If the training had other canaries, the coins are not about them.",
                "Take the file from a copy that nobody has touched, or train again.",
            )
    return coins.into
