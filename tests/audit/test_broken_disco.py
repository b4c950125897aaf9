"""DISCO's peers, broken, are caught by the log or by some tier, and correct ones are not accused.

Canaries by which the claim tier contradicts it with every seed that was tried (3, of 100, 150, 200,
300, 500, 750, 1,000, 2,000, 4,000).  5 peers, 4 rounds, epsilon 4; `classical-formula` 1 round of
epsilon 20, counts 1 round.  `shared` is before a peer, `local` before a coordinator in the clear.
`residual` is one run of 6 rounds with 31 numbers, and has no canaries; `log` is the budget audit.

                          claim: shared     local     residual     log
    half-noise                      500       500     caught
    no-clipping                     200       200     caught
    raw-radius                      200       200     caught
    raw-radius-and-noise        not (1)               caught
    silent-peer                 not (2)     1,000     caught
    silent-count                              300     unusual (3)
    half-count-noise                      not (4)     not (3)
    classical-formula             4,000               caught       caught, where it is stated
    all-of-the-noise          1,000 (5)               as logged    caught
    raw-radius-stated                                              refused before a round
    float-shares                                                   caught
    shared-in-the-clear                                            caught
    unreleased-quantile                                            caught
    wrong-sign                                        not (6)      not (6)

(1) Clip and noise grow alike, so all canaries together see nothing; the noise is not as logged.
(2) A fifth of the noise of the sum is missing; of 2,000 canaries none of 3 seeds shows it.
(3) A count is one number, of which no statistic is sealed but whether its noise is new.
(4) The count has a tenth of the budget: with half its noise mu is 1.14 times what is claimed in
    all.  1,000 canaries do not show it (3 seeds), and of 2 seeds 5,000 call it unusual once.
(5) With two colluders: before a peer there are then 2 shares of 5.
(6) Noise and clip are as logged, so nobody is less protected: what is wrong is the course of the
    clip, which runs off.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.records import RoundIntent
from privplan.audit.budget import audit_budget
from privplan.audit.canaries import claim_tier, rehearse
from privplan.audit.residual.tier import residual_tier
from privplan.fl.disco import canaries
from privplan.fl.disco.system import Disco
from privplan.fl.log import read
from privplan.fl.running.run_and_resume import run

from ..fl.disco_runs import Given, built, configuration, models_of, settings
from .broken_disco import BUGS, STATED, broken_disco, classical_factor
from .forging import each, forged
from .sound_runs import assert_seldom_accused_of

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("sklearn", "cryptography", "torch")),
    reason="runs need the extra `fl`",
)

FOUR: dict[str, Any] = {"silos": 5, "rounds": 4, "privacy": {"epsilon": 4.0}}
SHARED = settings(**FOUR)
LOCAL = settings("local", "plain", **FOUR)
TOLD = settings(colluders=2, **FOUR)
COUNTED = settings("local", "plain", clip="quantile", **{**FOUR, "rounds": 1})
ONCE = settings(silos=5, rounds=1, privacy={"epsilon": 20.0})


@dataclass(frozen=True)
class Case:
    """Canaries by which the claim tier contradicts a bug before an observer."""

    bug: str
    own: Any
    observer: str
    canaries: int


CLAIMED = [
    Case("half-noise", SHARED, "peer", 500),
    Case("half-noise", SHARED, "model", 500),
    Case("half-noise", LOCAL, "coordinator", 500),
    Case("no-clipping", SHARED, "peer", 200),
    Case("no-clipping", LOCAL, "coordinator", 200),
    Case("raw-radius", SHARED, "peer", 200),
    Case("raw-radius", LOCAL, "coordinator", 200),
    Case("silent-peer", LOCAL, "coordinator", 1_000),
    Case("silent-count", COUNTED, "coordinator", 300),
    Case("all-of-the-noise", TOLD, "peer", 1_000),
    Case("classical-formula", ONCE, "peer", 4_000),
]

RESIDUAL = {
    "half-noise": {"variance of the noise"},
    "no-clipping": {"norms after clipping", "sums made again"},
    "raw-radius": {"norms after clipping", "sums made again"},
    "raw-radius-and-noise": {"variance of the noise", "norms after clipping"},
    "silent-peer": {"variance of the noise", "values without noise"},
    "classical-formula": {"variance of the noise"},
}
"""What the residual tier contradicts at least."""

UNSEEN = ("half-count-noise", "silent-count", "all-of-the-noise", "none")
"""What it does not contradict."""


@pytest.fixture(autouse=True)
def one_by_its_protocol(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the sums of one run of a rehearsal go through their protocol: they are all the same."""
    monkeypatch.setattr(canaries, "MAX_PROTOCOL_WORK", 0)
    return


@functools.cache
def rehearsed(bug: str, own: Any, observer: str, canaries: int, seed: int = 1) -> Any:
    with broken_disco(bug):
        return rehearse(own, canaries=canaries, observer=observer, seed=seed)


def made(bug: str, folder: Path, **tables: dict[str, str]) -> Path:
    """Make a run with a bug, with noise from the operating system; return its folder."""
    with broken_disco(bug):
        run(configuration("seed", **tables), folder)
    return folder


def named(cases: list[Case], quick: tuple[str, ...] | None = None) -> list[Any]:
    """Return cases by name; slow are those not before a peer, or not of a bug in `quick`."""
    return [
        pytest.param(
            case,
            id=f"{case.bug}-{case.observer}",
            marks=[]
            if quick is None or (case.bug in quick and case.observer == "peer")
            else [pytest.mark.slow],
        )
        for case in cases
    ]


# Canaries.


@pytest.mark.parametrize("case", named(CLAIMED, ("no-clipping", "raw-radius")))
def test_the_claim_tier_contradicts_it(case: Case) -> None:
    found = claim_tier(rehearsed(case.bug, case.own, case.observer, case.canaries))
    assert found.contradicted
    assert found.value > found.claimed
    sound = claim_tier(rehearsed("none", case.own, case.observer, case.canaries))
    assert sound.verdict == "not-contradicted"
    if case.bug == "silent-peer":  # the message without noise is named
        assert found.sample["group"] == "silo-1"


@pytest.mark.slow
@pytest.mark.parametrize("case", named([case for case in CLAIMED if case.canaries <= 500]))
def test_the_claim_tier_has_power(case: Case) -> None:
    """Twice the canaries contradict it with 4 seeds of 4: power is .47 or more, at 95%."""
    for seed in range(10, 14):
        seen = rehearsed(case.bug, case.own, case.observer, 2 * case.canaries, seed)
        assert claim_tier(seen).contradicted


@pytest.mark.parametrize(
    ("bug", "own", "observer"),
    [
        ("raw-radius-and-noise", SHARED, "peer"),
        ("silent-peer", SHARED, "peer"),
        pytest.param("half-count-noise", COUNTED, "coordinator", marks=pytest.mark.slow),
    ],
)
def test_canaries_do_not_see_what_the_table_says_they_do_not(
    bug: str, own: Any, observer: str
) -> None:
    """That these accuse nobody proves nothing about the noise."""
    assert not claim_tier(rehearsed(bug, own, observer, 100)).contradicted


@pytest.mark.parametrize(
    ("unit", "clip"),
    [("record", "fixed"), pytest.param("silo", "previous", marks=pytest.mark.slow)],
)
def test_half_the_noise_is_contradicted_for_other_units_and_clips(unit: str, clip: str) -> None:
    own = settings(unit=unit, clip=clip, **{**FOUR, "rounds": 2})
    assert claim_tier(rehearsed("half-noise", own, "peer", 500)).contradicted


# The residual tier.


@pytest.mark.parametrize("bug", list(BUGS))
def test_the_residual_tier_contradicts_what_is_not_as_logged(bug: str, tmp_path: Path) -> None:
    clip = {"disco": {"clip": '"quantile"'}} if "count" in bug else {}
    if bug == "all-of-the-noise":
        clip = {"security": {"colluders": "2"}}
    folder = made(bug, tmp_path / "run", run={"rounds": "6"}, data={"silos": "5"}, **clip)
    found = {each.what for each in residual_tier(folder) if each.contradicted}
    assert (found >= RESIDUAL[bug]) if bug in RESIDUAL else not found


def test_the_table_has_every_bug_and_says_who_sees_it() -> None:
    assert set(BUGS) == {*RESIDUAL, *UNSEEN}
    caught = {case.bug for case in CLAIMED} | set(RESIDUAL)
    assert set(BUGS) - caught == {"half-count-noise", "none"}
    assert set(STATED) >= set(LOGGED)


# The log.

LOGGED: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "float-shares": ("protocol-mismatch", {}),
    "all-of-the-noise": (
        "event-mismatch",
        {"data": {"silos": "5"}, "security": {"colluders": "2"}},
    ),
    "shared-in-the-clear": (
        "event-mismatch",
        {"disco": {"noise": '"local"'}, "security": {"aggregation": '"plain"'}},
    ),
    "unreleased-quantile": ("adaptive-clip", {"disco": {"clip": '"quantile"'}}),
}
"""What the audit says of a log at least, and what differs in the configuration."""


@pytest.mark.parametrize("bug", list(LOGGED))
def test_the_log_tells_of_it(bug: str, tmp_path: Path) -> None:
    finding, tables = LOGGED[bug]
    report = audit_budget(made(bug, tmp_path / "run", **tables))
    assert report.supported is False
    assert finding in {hazard.id for hazard in report.hazards if hazard.severity == "error"}
    assert audit_budget(made("none", tmp_path / "sound", **tables)).ok


def test_shared_noise_in_the_clear_is_refused_before_a_run() -> None:
    tables = {"disco": {"noise": '"shared"'}, "security": {"aggregation": '"plain"'}}
    with pytest.raises(InvalidInput, match="hides no peer"):
        configuration("seed", **tables)
    with pytest.raises(InvalidInput, match=r'noise = "shared" in \[disco\]'):
        built(settings("shared", "plain"))


def test_a_clip_that_is_said_to_be_private_has_no_sensitivity(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="private data gives no sensitivity"):
        made("raw-radius-stated", tmp_path / "run")
    sound = made("none", tmp_path / "sound")
    edit = each("round.intent", lambda line: line["contribution"].update(source="private"))
    assert audit_budget(forged(sound, tmp_path / "forged", edit)).supported is False


def test_the_classical_formula_is_above_its_epsilon_where_it_is_stated(tmp_path: Path) -> None:
    """1 round: noise for epsilon 20 by the formula is that of epsilon 25.4."""
    sound = configuration("seed", run={"rounds": "1"}, privacy={"noise_multiplier": "1.0"})
    # z of the peer that holds at epsilon 20 is 2 / 3.4478; two of three shares hide it.
    held = 2.0 / 3.4478 * (3.0 / 2.0) ** 0.5
    for factor, least, most in ((1.0, 19.9, 20.1), (classical_factor(), 25.3, 25.5)):
        own = replace(sound, privacy=replace(sound.privacy, noise_multiplier=held * factor))
        folder = tmp_path / f"{factor:.3f}"
        run(own, folder)
        rows = {row.observer: row.total.upper for row in audit_budget(folder).rows}
        assert least < rows["peer"] < most
    claim = each("run.open", lambda line: line["claim"].update(epsilon="20.0"))
    assert audit_budget(forged(folder, tmp_path / "claimed", claim)).supported is False


def test_a_release_that_the_plan_does_not_know_is_refused(tmp_path: Path) -> None:
    """A count that is left out of a plan that pays for it: the budget refuses what comes next."""

    def unmoved(self: Any, gate: Any, number: int, clip: float, norms: Any) -> float:
        del self, gate, number, norms
        return clip

    with mock.patch.object(Disco, "_clip_from_count", unmoved), pytest.raises(BudgetExceeded):
        run(configuration("seed", disco={"clip": '"quantile"'}), tmp_path / "run")


def test_a_quantile_with_the_wrong_sign_runs_off_and_no_audit_sees_it(tmp_path: Path) -> None:
    """Clips go to the norms with the right sign, from either side, and away with the wrong one."""
    own = settings("local", "plain", rounds=18, clip="quantile", privacy={"noise_multiplier": 0.05})
    rows = np.ones((3, 4))  # of norm 2
    ends = {}
    for bug in ("none", "wrong-sign"):
        for first in (1.0, 4.0):
            given = replace(own, training=replace(own.training, clip=first))
            with broken_disco(bug):
                states, _ = models_of(built(given, rows=Given(rows).rows))
            ends[bug, first] = float(states[-1][1]["clip"][0])
    assert 1.8 < ends["none", 1.0] < 2.3
    assert 1.8 < ends["none", 4.0] < 2.3
    assert ends["wrong-sign", 1.0] < 0.2
    assert ends["wrong-sign", 4.0] > 20.0
    folder = made("wrong-sign", tmp_path / "run", disco={"clip": '"quantile"'})
    assert audit_budget(folder).ok
    assert not any(each.contradicted for each in residual_tier(folder))
    clips = [line.record for line in read(folder) if isinstance(line.record, RoundIntent)]
    assert {intent.contribution.source for intent in clips} == {"public", "released"}


# False alarms.

SOUND = (
    (LOCAL, "coordinator"),
    (COUNTED, "coordinator"),
    (settings(unit="record", **FOUR), "peer"),
    (SHARED, "peer"),
    (settings("local", "shares", clip="previous", **{**FOUR, "rounds": 2}), "peer"),
)


@pytest.mark.parametrize(
    "repetitions", [3, pytest.param(40, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_canaries_seldom_accuse_correct_peers(repetitions: int) -> None:
    assert_seldom_accused_of(rehearsed, SOUND, repetitions)
