"""Canaries of FLAME's users: what an observer sees of them is what the tests take it for."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import LaplaceMessages, ResponseMessages
from privplan.accountant.plan import phases
from privplan.audit.attack.tiers import canary_count
from privplan.audit.canaries import rehearsal, rehearse
from privplan.fl.flame import canaries
from privplan.fl.flame.canary_layout import CanaryUpdates, Layout
from privplan.fl.flame.canary_scores import scores_of
from privplan.fl.flame.settings import FlameSettings
from privplan.fl.flame.terms import FlameTerms

from ..cases import for_each
from ..chance import limits
from .extras import needs
from .flame_runs import flame
from .shuffled_rounds import opened

pytestmark = needs("sklearn", "cryptography", "torch")


@pytest.fixture
def unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every plan prove one number at once: to prove its own costs more than the runs do."""
    known = phases.account(ev.Gaussian(5.0), delta=1e-5)
    for module in (phases, rehearsal):
        monkeypatch.setattr(module, "account", lambda *_, **__: known)


@pytest.fixture
def proven_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every event be accounted for once, and not in each rehearsal."""
    once = functools.cache(phases.account)
    for module in (phases, rehearsal):
        monkeypatch.setattr(module, "account", once)


def ideal(system: str, noise: str = "5.0", rounds: str = "2", **table: str) -> Any:
    return flame(
        system,
        run={"rounds": rounds},
        privacy={"noise_multiplier": noise},
        flame={"transport": '"ideal"', **table},
    )


def standard(values: Any) -> None:
    """Say whether numbers have mean 0 and variance 1; at most 1 in 10^6 over 40 looks.

    What is seen is a sum of 5 or more messages: its kurtosis is 3.6 at most (of Laplace noise), so
    squares vary as those of 1.3 times fewer normal numbers.
    """
    low, high = limits(stats.norm(scale=math.sqrt(values.size)), looks=40)
    assert low < values.sum() < high
    low, high = limits(stats.chi2(values.size / 1.3, scale=1.3), looks=40)
    assert low < np.square(values).sum() < high


def noise_of(found: Any) -> Any:
    """Return what was seen less what the units moved it by."""
    return found.observations - np.where(found.coins, found.shift, -found.shift)


# What is counted of a message.


@for_each("counted", ["sums", "mixed", "apart"])
@for_each("value", [-1.0, 0.0, 1.0])
@for_each(
    "mechanism",
    [
        LaplaceMessages(0.5, 0.25),
        LaplaceMessages(0.5, 2.5),
        ResponseMessages(0.5, 17),
        ResponseMessages(3.0, 2),
    ],
    ids=str,
)
def test_moments_are_those_of_messages(mechanism: Any, value: float, counted: Any) -> None:
    """Of 40,000 messages mean and variance: 144 looks, at most 1 in 10^6 together."""
    scores = scores_of(mechanism, counted)
    laws = {"message": scores.value(value)}
    ticket = opened(mechanism, draws=2)
    if isinstance(mechanism, LaplaceMessages):
        values = np.full((20_000, 2), value * mechanism.bound)
    else:
        steps = mechanism.categories - 1
        middle = (value + 1.0) * steps / 2.0
        values = np.tile([math.floor(middle), math.ceil(middle)], (20_000, 1)).astype(int)
    drawn = {"message": mechanism.messages(ticket, values, "m").ravel()}
    if value == 0.0:
        drawn["dummy"] = mechanism.dummies(ticket, 40_000, "d")
        laws["dummy"] = scores.dummy
    most = limits(stats.norm(scale=1 / 200), looks=144)[1]
    for name, messages in drawn.items():
        seen, law = scores.of(messages), laws[name]
        assert abs(seen.mean() - law.mean) <= most * seen.std()
        squares = np.square(seen - law.mean)
        assert abs(squares.mean() - law.variance) <= most * squares.std() + 1e-12


def test_what_is_counted_of_mixed_messages_is_the_best_of_all_sums() -> None:
    """Against dummies: a sum of messages shifts less, by up to sqrt 2 where epsilon0 is small."""
    lost = {}
    for scale in (0.3, 1.0, 4.0, 30.0):
        best, plain, cut = (
            scores_of(LaplaceMessages(1.0, scale), counted)
            for counted in ("mixed", "sums", "apart")
        )
        shifts = [one.value(1.0).mean / math.sqrt(one.dummy.variance) for one in (best, plain, cut)]
        assert shifts[0] == max(shifts)
        lost[scale] = shifts[0] / shifts[1]
    assert lost[30.0] == pytest.approx(math.sqrt(2.0), rel=0.02)
    words = [scores_of(ResponseMessages(2.0, 9), counted) for counted in ("mixed", "sums")]
    shifts = [one.value(1.0).mean / math.sqrt(one.dummy.variance) for one in words]
    # 2 of 9 words are counted, and those between them alone move a sum.
    assert shifts[0] / shifts[1] == pytest.approx(math.sqrt(60 / 9) / (4 * math.sqrt(2 / 9)))


# What an observer sees of a unit.

SYSTEMS: dict[str, tuple[str, str, dict[str, str]]] = {
    "simple": ("flame-simple", "5.0", {}),
    "simple, words": ("flame-simple", "5.0", {"randomizer": '"responses"'}),
    "double": ("flame-double", "5.0", {}),
    "double, capped": ("flame-double", "2.0", {"padded_to": "2", "overflow": '"cap"'}),
    "double, words": ("flame-double", "2.0", {"randomizer": '"responses"', "steps": "3"}),
    "double, in a piece": ("flame-double", "2.0", {"granularity": '"tuple"'}),
    "topk": ("flame-topk", "5.0", {}),
    "topk, words": ("flame-topk", "5.0", {"randomizer": '"responses"'}),
    "topk, most": ("flame-topk", "5.0", {"chosen": "20"}),
    "topk, all": ("flame-topk", "5.0", {"chosen": "31"}),
    "topk, decoys": ("flame-topk", "5.0", {"decoys": "26"}),
}
QUICK = ("simple", "topk, words")
UNCLAIMED = {
    ("topk", "shuffler"),
    ("topk", "colluding"),
    ("topk, words", "shuffler"),
    ("topk, words", "colluding"),
    ("topk, most", "shuffler"),
    ("topk, most", "colluding"),
}
"""Of which nothing is claimed: index sets are raw data."""


@for_each("observer", ["analyzer", "model", "client", "shuffler", "colluding"], items=3)
@for_each(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SYSTEMS],
)
@pytest.mark.usefixtures("proven_once")
def test_a_unit_is_seen_as_far_as_is_said(name: str, observer: str) -> None:
    system, noise, table = SYSTEMS[name]
    own = ideal(system, noise, **table)
    if (name, observer) in UNCLAIMED:
        with pytest.raises(Unsupported, match="so no canary tests it"):
            rehearse(own, canaries=10, observer=observer, seed=3)
        return
    if (name, observer) == ("double, capped", "shuffler"):
        with pytest.raises(Unsupported, match="which messages a cap left out"):
            rehearse(own, canaries=10, observer=observer, seed=3)
        return
    found = rehearse(own, canaries=60, observer=observer, seed=3)
    looks = 2 if system == "flame-double" and found.looks == 2 else 1
    assert found.observations.shape == (2 * looks, 60)
    assert found.claimed is not None
    assert found.shift > 0.0
    standard(noise_of(found))
    assert found.opposite


@for_each("observer", ["model", "client"])
@pytest.mark.usefixtures("unproven")
def test_who_tells_what_it_sent_is_taken_off(observer: str) -> None:
    """Noise of the users that the observer knows is gone; the shift is larger by as much.

    Nine of twelve tell: noise that is left in, or taken off twice, is off by a factor of 4.
    """
    shifts = []
    for colluders in ("0", "9"):
        own = flame(
            "flame-simple",
            privacy={"noise_multiplier": "5.0"},
            flame={"transport": '"ideal"'},
            security={"colluders": colluders},
        )
        found = rehearse(own, canaries=40, observer=observer, seed=2)
        standard(noise_of(found))
        shifts.append(found.shift)
    known = 1 if observer == "client" else 0
    assert shifts[1] / shifts[0] == pytest.approx(math.sqrt((12 - known) / (3 - known)))


@for_each("system", ["flame-simple", "flame-double"])
@pytest.mark.usefixtures("unproven")
def test_a_shuffler_sees_sums_and_no_message(system: str) -> None:
    """Sums without its dummies, in the coordinates that a canary sent; three lie in a run."""
    own = flame(
        system,
        run={"rounds": "1"},
        data={"users": "24"},
        privacy={"noise_multiplier": "2.0"},
        flame={"transport": '"ideal"', "randomizer": '"responses"'},
    )
    found = rehearse(own, canaries=150, observer="shuffler", seed=3)
    standard(noise_of(found))
    each = rehearse(own, canaries=10, observer="colluding", seed=3)
    assert each.shift > found.shift > 0.0


@pytest.mark.usefixtures("unproven")
def test_a_shuffler_of_raw_choices_is_refused() -> None:
    stated = FlameTerms.reaches

    def sums(self: FlameTerms, *rests_on: str) -> Any:
        given = dict(stated(self, *rests_on))
        return given | {"shuffler": replace(given["shuffler"], sees="sum")}

    with (
        mock.patch.object(FlameTerms, "reaches", sums),
        pytest.raises(Unsupported, match="sees sums"),
    ):
        rehearse(ideal("flame-topk", decoys="26"), canaries=10, observer="shuffler")


@for_each(
    ("system", "chosen"),
    [("flame-simple", None), pytest.param("flame-double", "20", marks=pytest.mark.slow)],
)
@pytest.mark.usefixtures("unproven")
def test_several_lie_across_one_another(system: str, chosen: str | None) -> None:
    """24 users of 31 coordinates: three canaries in a run, and their noise stays what is said."""
    own = flame(
        system,
        run={"rounds": "1"},
        data={"users": "24"},
        privacy={"noise_multiplier": "1.0"},
        flame={"transport": '"ideal"'} | ({} if chosen is None else {"chosen": chosen}),
    )
    found = rehearse(own, canaries=150, observer="model", seed=4)
    assert any("3 units at most in each of 50 runs" in note for note in found.note)
    standard(noise_of(found))


@pytest.mark.usefixtures("unproven")
def test_a_seed_repeats_all_and_every_run_has_noise_of_its_own() -> None:
    own = ideal("flame-simple")
    first, second, other = (
        rehearse(own, canaries=8, observer="analyzer", seed=seed) for seed in (5, 5, 6)
    )
    assert (first.observations == second.observations).all()
    assert not (first.observations == other.observations).any()
    assert len(np.unique(first.observations)) == first.observations.size
    assert not rehearse(own, canaries=4, observer="model").seeded


@for_each("randomizer", ["laplace", "responses"])
@for_each("system", ["flame-simple", "flame-double", "flame-topk"])
@pytest.mark.usefixtures("unproven")
def test_messages_are_the_same_in_ciphertexts_and_without(system: str, randomizer: str) -> None:
    own = flame(
        system,
        run={"rounds": "1"},
        data={"users": "4"},
        privacy={"noise_multiplier": "5.0"},
        flame={"randomizer": f'"{randomizer}"'},
    )
    for observer in ("analyzer", "model"):
        seen = []
        for most in (0.0, 60.0):
            with mock.patch.object(canaries, "MOST_SEALED_SECONDS", most):
                seen.append(rehearse(own, canaries=2, observer=observer, seed=2))
        # Sums over messages are made in another order, so the last bits may differ.
        assert seen[0].observations == pytest.approx(seen[1].observations, rel=1e-9, abs=1e-12)
        assert any("0 runs with a ciphertext" in note for note in seen[0].note)
        assert not any("ciphertext" in note for note in seen[1].note)


def test_ciphertexts_carry_as_many_runs_as_fit() -> None:
    own = flame("flame-double", flame={"padded_to": "12"})
    terms = FlameTerms("double", 12, 31, 5, 1.0, 0, 12, FlameSettings())
    each = 2 * 31 * 12 * 128e-6
    assert canaries.sealed_runs(own, terms, 2, 10_000) == int(25.0 / each)
    assert canaries.sealed_runs(own, terms, 2, 3) == 3
    assert canaries.sealed_runs(ideal("flame-double"), terms, 2, 3) == 0
    large = FlameTerms("double", 1000, 650, 65, 1.0, 0, 1000, FlameSettings())
    assert canaries.sealed_runs(own, large, 2, 3) == 0


# Where canaries lie.


@for_each(
    ("sizes", "known", "apart", "first", "room"),
    [
        (("topk", 12, 31, 5), 0, False, 5, 5),
        (("topk", 3, 31, 5), 0, False, 5, 3),
        (("topk", 12, 31, 20), 0, False, 0, 1),
        (("topk", 12, 31, 31), 0, False, 0, 1),
        (("topk", 12, 31, 5), 1, True, 0, 11),
        (("simple", 1000, 650, 650), 0, False, 0, 81),
        (("simple", 100, 650, 650), 20, False, 0, 10),
        (("double", 12, 31, 5), 0, False, 0, 1),
        (("double", 12, 31, 5), 2, True, 0, 10),
    ],
)
def test_canaries_have_room(sizes: Any, known: int, apart: bool, first: int, room: int) -> None:
    protocol, users, dimensions, chosen = sizes
    terms = FlameTerms(protocol, users, dimensions, chosen, 1.0, 0, users, FlameSettings())
    layout = Layout(terms, known, apart)
    assert (layout.first, layout.room) == (first, room)
    signs = layout.signs(np.random.default_rng(1))
    assert signs.shape == (room, dimensions)
    lies = (signs != 0.0).sum(axis=1)
    assert (lies == (chosen if protocol == "topk" else dimensions)).all()
    if protocol == "topk" and not apart:
        assert ((signs != 0.0).sum(axis=0) <= 1).all()
        assert chosen > dimensions / 2 or not signs[:, :chosen].any()


def test_updates_are_ten_clips_long_and_turn_round_by_round() -> None:
    training = CanaryUpdates(4, clip=0.5)
    training.directions = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    blocks = [next(training.user_deltas(np.zeros(4), [], number)) for number in (1, 2)]
    assert blocks[1].rows.tolist() == [[5.0, -5.0, 0.0, 0.0], [0.0, 0.0, 5.0, 5.0]]
    assert (blocks[0].rows == -blocks[1].rows).all()
    assert blocks[0].user.tolist() == [0, 1]
    assert training.initial().tolist() == [0.0] * 4


# What is not rehearsed, and what it costs.


def test_what_is_not_rehearsed_is_refused() -> None:
    own = ideal("flame-simple")
    with pytest.raises(InvalidInput, match="observer"):
        rehearse(own, canaries=10, observer="server")
    with pytest.raises(InvalidInput, match="Nobody trains with"):
        rehearse(own, canaries=10, observer="model", real=True)
    few = ideal("flame-topk", padded_to="6", overflow='"cap"')
    with pytest.raises(Unsupported, match="so no canary tests it") as caught:
        rehearse(few, canaries=10, observer="analyzer")
    assert "flame-topk" in caught.value.next_step


def test_the_usual_number_of_canaries_is_affordable() -> None:
    def size(system: str, users: str, **table: str) -> int:
        own = flame(
            system,
            data={"users": users, "name": '"digits"'},
            training={"model": '"softmax"'},
            flame={"transport": '"ideal"', **table},
        )
        return canary_count(own, 1, rounds=None, requested=None)

    assert size("flame-double", "1000", chosen="65") == 1_000
    assert size("flame-topk", "1000", chosen="65") == 1_000
    assert 100 <= size("flame-simple", "1000") <= 1_000
    assert 100 <= size("flame-simple", "12") <= 1_000


def test_work_grows_with_messages_and_canaries() -> None:
    few, many = ideal("flame-double"), ideal("flame-double", chosen="20")
    assert canaries.work(few, 1, 100) < canaries.work(few, 1, 1_000)
    assert canaries.work(few, 1, 100) < canaries.work(many, 1, 100)


def test_nothing_is_written_and_no_record_is_read(tmp_path: Path) -> None:
    with mock.patch("privplan.fl.datasets.registry.load", side_effect=AssertionError):
        rehearse(ideal("flame-simple"), canaries=4, observer="model", seed=1)
    assert not list(tmp_path.iterdir())
