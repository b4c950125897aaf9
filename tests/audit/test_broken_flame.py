"""FLAME's rounds, broken, are caught by some tier or a party, and correct ones are not accused.

Canaries by which the claim tier contradicts it with the one seed that was tried, of 60, 100, 150,
200, 300, 400, 600, 1,000, 2,000 and 4,000.  One round; 12 users of 31 coordinates, of which
`double` and `topk` send 5.  `colluding` sees each message, `shuffler` the sums and who sent which
coordinates, `analyzer` all messages that are mixed and `model` the sums; b is the noise multiplier
of a message.

                       simple, b 20  simple, b 5  double, b 5  topk, b 5  topk, b 5  topk, b 2,
                       colluding     analyzer     shuffler     analyzer   model      48 users, model
    half-noise         1,000         1,000        not (1)      4,000                 not (1)
    half-noise, words  not (1)       (b 5, colluding: 200)
    half-noise, double               (b 5, colluding: 600)
    no-clip            60            60           150                     200
    constant-dummies                                                                 300
    dropped-dummies                                                                  300
    repeated-noise     three rounds, simple, b 5, model: 400
    uncounted-dummies  the analyzer counts ciphertexts, and ends the round
    largest-as-drawn   not (2)
    unmixed            not (3)
    mixed-whole        not (3)

(1) 600 canaries, of words 1,000 at b 20, where epsilon .76 is claimed, and 1,000 before the
    shuffler: too few, for a sum loses much beside its claim.
(2) 2,000 canaries (double, b 2, analyzer) do not: five messages in coordinates that are known show
    no more than the bound allows of five that are drawn.  That the coordinates are the longest ones
    does show, in what these and the others hold of a canary; no tier makes a test of that.
(3) Sums and multisets stay as they are, so no tier sees it, and no fact of the log does: the order
    is drawn from a fork of its stream.  What the analyzer receives shows it, as is tested here.

FLAME's runs have no sealed items, so there is no residual tier.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant.errors import ProtocolFault
from privplan.accountant.mechanisms import LaplaceMessages
from privplan.audit.canaries import claim_tier, rehearse
from privplan.fl.shuffling import Shuffling, Terms

from ..cases import for_each
from ..chance import limits
from ..fl.flame_runs import flame
from ..fl.shuffled_rounds import opened
from .broken_flame import BUGS, broken_flame
from .sound_runs import assert_seldom_accused_of

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("sklearn", "cryptography", "torch")),
    reason="runs need the extra `fl`",
)


def own(system: str, noise: str, rounds: str = "1", users: str = "12", **table: str) -> Any:
    return flame(
        system,
        run={"rounds": rounds},
        data={"users": users},
        privacy={"noise_multiplier": noise},
        flame={"transport": '"ideal"', **table},
    )


QUIET = own("flame-simple", "20.0")
SIMPLE = own("flame-simple", "5.0")
WORDS = own("flame-simple", "5.0", randomizer='"responses"')
THRICE = own("flame-simple", "5.0", "3")
DOUBLE = own("flame-double", "5.0")
TOPK = own("flame-topk", "5.0")
CROWD = own("flame-topk", "2.0", users="48")


@dataclass(frozen=True)
class Case:
    """Canaries by which the claim tier contradicts a bug before an observer."""

    bug: str
    own: Any
    observer: str
    canaries: int
    quick: bool = False


CLAIMED = [
    Case("half-noise", QUIET, "colluding", 1_000),
    Case("half-noise", WORDS, "colluding", 200, quick=True),
    Case("no-clip", QUIET, "colluding", 60, quick=True),
    Case("no-clip", DOUBLE, "shuffler", 150, quick=True),
    Case("half-noise", DOUBLE, "colluding", 600, quick=True),
    Case("half-noise", SIMPLE, "analyzer", 1_000),
    Case("no-clip", SIMPLE, "analyzer", 60),
    Case("half-noise", TOPK, "analyzer", 4_000),
    Case("no-clip", TOPK, "model", 200),
    Case("constant-dummies", CROWD, "model", 300),
    Case("dropped-dummies", CROWD, "model", 300),
    Case("repeated-noise", THRICE, "model", 400),
]

TOLD_BY_ITS_PARTIES = {"uncounted-dummies"}
NOT_SEEN = {"largest-as-drawn", "unmixed", "mixed-whole", "none"}
"""What no tier contradicts with the canaries that were tried."""


@functools.cache
def rehearsed(bug: str, settings: Any, observer: str, canaries: int, seed: int = 1) -> Any:
    with broken_flame(bug):
        return rehearse(settings, canaries=canaries, observer=observer, seed=seed)


def named(cases: list[Case]) -> list[Any]:
    return [
        pytest.param(
            case,
            id=f"{case.bug}-{case.own.run.system}-{case.observer}",
            marks=[] if case.quick else [pytest.mark.slow],
        )
        for case in cases
    ]


# Canaries.


@for_each("case", named(CLAIMED), items=8)
def test_the_claim_tier_contradicts_it(case: Case) -> None:
    found = claim_tier(rehearsed(case.bug, case.own, case.observer, case.canaries))
    assert found.contradicted
    if (case.own, case.observer) not in SOUND:  # which the last test is about
        # As seldom contradicted with any number of canaries.
        sound = claim_tier(rehearsed("none", case.own, case.observer, min(case.canaries, 1_000)))
        assert sound.verdict == "not-contradicted"


def test_the_table_has_every_bug() -> None:
    caught = {case.bug for case in CLAIMED}
    assert set(BUGS) == caught | TOLD_BY_ITS_PARTIES | NOT_SEEN
    assert not caught & NOT_SEEN


def test_noise_that_is_used_again_shows_by_its_fit() -> None:
    """Signs turn round by round, so two rounds with the same noise cancel it."""
    seen = rehearsed("repeated-noise", THRICE, "model", 30)
    apart = rehearsed("none", THRICE, "model", 30)

    def changes(found: Any) -> Any:
        # Two rounds with opposite signs: what is equal in both goes away.
        return (found.observations[0] + found.observations[1]) / 2.0

    right = [((changes(found) > 0.0) == found.coins).mean() for found in (seen, apart)]
    assert right[0] == 1.0
    assert right[1] < 0.95


# What no tier sees.


def test_where_the_largest_are_sent_the_longest_show_it() -> None:
    """What favoured coordinates show less what the others do: nothing, where coordinates are drawn.

    The mean of 120 such numbers, along the coins, is beyond the limits once in 10^6.
    """
    settings = own("flame-double", "0.5", padded_to="12")
    far = {}
    for bug in ("none", "largest-as-drawn"):
        found = rehearsed(bug, settings, "analyzer", 120)
        across = (found.observations[0] - found.observations[1]) / np.sqrt(2.0)
        along = np.where(found.coins, across, -across)
        far[bug] = along.mean() / (along.std() / np.sqrt(len(along)))
    assert abs(far["none"]) < limits(norm())[1]
    assert abs(far["largest-as-drawn"]) > 6.0


USERS, COORDINATES = 12, 40


def positions(bug: str) -> Any:
    """Return at which position each user's message lies in each coordinate: (users, d)."""
    sender = np.repeat(np.arange(USERS)[:, None], COORDINATES, axis=1)
    terms = Terms(USERS, COORDINATES, COORDINATES)
    with broken_flame(bug):
        received = Shuffling(terms).round(1, opened(), sender)
    return received.messages[:, :, 0].argsort(axis=1).T


def test_what_the_analyzer_receives_shows_whether_it_was_mixed() -> None:
    """Neighbouring coordinates agree in a position once in n: of 468 pairs 39, deviation 6."""
    agree = {}
    for bug in ("none", "unmixed", "mixed-whole"):
        where = positions(bug)
        agree[bug] = int((where[:, 1:] == where[:, :-1]).sum())
        assert (where == np.arange(USERS)[:, None]).all() == (bug == "unmixed")
    assert agree["unmixed"] == agree["mixed-whole"] == USERS * (COORDINATES - 1)
    # Beyond six deviations once in 10^8; the seed is fixed.
    assert agree["none"] < 39 + 36


@for_each("bug", ["unmixed", "mixed-whole"])
def test_sums_show_no_order(bug: str) -> None:
    """That canaries accuse nobody proves nothing about the order."""
    settings = flame("flame-simple", run={"rounds": "1"}, privacy={"noise_multiplier": "5.0"})
    seen = [rehearsed(name, settings, "analyzer", 5) for name in (bug, "none")]
    assert seen[0].observations == pytest.approx(seen[1].observations, rel=1e-9)


def test_the_analyzer_counts_what_the_shuffler_adds() -> None:
    mechanism = LaplaceMessages(1.0, 4.0)
    terms = Terms(6, 4, 2, padded_to=6)
    places = np.tile([0, 1], (6, 1))
    messages = np.zeros((6, 2), np.int64)
    with broken_flame("uncounted-dummies"), pytest.raises(ProtocolFault, match="another number"):
        Shuffling(terms).round(1, opened(), messages, places=places, mechanism=mechanism)


# False alarms.

SOUND = ((QUIET, "colluding"), (DOUBLE, "shuffler"), (WORDS, "colluding"))


@for_each("repetitions", [3, pytest.param(40, marks=pytest.mark.slow)], ids=["few", "many"])
def test_canaries_seldom_accuse_correct_rounds(repetitions: int) -> None:
    assert_seldom_accused_of(rehearsed, SOUND, repetitions)
