"""Time frames of DISCO's peers: which are refused, who is in a sum, what the longest pays."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms.discrete_sampler import discrete_gaussian
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity.release import root_up
from privplan.fl.disco.noise import NoiseTerms, views_of
from privplan.fl.disco.time_frames import Schedule

from ..accountant.participating import exact
from ..cases import for_each
from .disco_runs import VARIANTS, InTensors, built, configuration, integers_of, models_of, settings
from .extras import needs

pytestmark = needs("cryptography")

FRAMES: Final = ("1-4", "1-2", "1-2", "3-4", "2-4")
"""Groups of 3, 4, 3 and 3 of five peers; the longest frame has all four rounds."""

WITH_FRAMES: Final = {name: VARIANTS[name] for name in VARIANTS if name != "local masked"}
DELTA: Final = 1e-5

# --- refusals -----------------------------------------------------------------------------------


def tables(frames: str, **more: dict[str, str]) -> dict[str, dict[str, str]]:
    return {
        "run": {"rounds": "4"},
        "data": {"silos": "5"},
        **more,
        "disco": {"time_frames": frames, **more.get("disco", {})},
    }


GOOD: Final = '["1-4", "1-2", "1-2", "3-4", "2-4"]'
MALFORMED: Final = "must be a list of the first and the last round of each peer"

WRONG: Final = [
    *(f'["{frame}", "1-4", "1-4", "1-4", "1-4"]' for frame in ("1", "0-4", "1--4", "1 - 4")),
    *(f'["{frame}", "1-4", "1-4", "1-4", "1-4"]' for frame in ("1-\u0664", "1-4\\n")),
    *("[1, 2, 3, 4, 5]", "[[1, 4], [1, 4], [1, 4], [1, 4], [1, 4]]", '"all"', '"1-4"'),
]
REFUSED: Final = [
    *((tables(frames), MALFORMED) for frames in WRONG),
    (tables('["1-4", "2-1", "1-4", "1-4", "1-4"]'), "from round 2 to round 1"),
    (
        tables(GOOD, disco={"noise": '"local"'}, security={"aggregation": '"masked"'}),
        'gives `time_frames` in [disco] with aggregation = "masked"',
    ),
    (
        tables(GOOD, disco={"noise": '"as_published"'}),
        'gives `time_frames` in [disco] with noise = "as_published"',
    ),
    (
        tables(GOOD, privacy={"epsilon": "5.0"}),
        "gives `epsilon` and `noise_multiplier` in [privacy] with `time_frames`",
    ),
]


@for_each("parts, text", REFUSED)
def test_a_configuration_with_such_frames_is_refused(parts: Any, text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        configuration(**parts)
    said = " ".join(str(raised.value).split())
    assert text in said
    # The field, the reason and the next step.
    assert "time_frames" in said
    assert len([one for one in said.split(". ") if one]) >= 3


@for_each(
    ("frames", "text"),
    [
        (FRAMES[:4], "There are 5 peers, and `time_frames` has 4."),
        ((*FRAMES, "1-4"), "There are 5 peers, and `time_frames` has 6."),
        ((*FRAMES[:4], "2-5"), "goes beyond the 4 rounds"),
        (("1-4", "1-2", "1-2", "3-4", "4-4"), "In round 3 2 peers take part; at least 3 must."),
        (("1-1", "1-1", "1-1", "3-4", "3-4"), "In round 2 0 peers take part; at least 3 must."),
    ],
    ids=["too-few", "too-many", "beyond", "pair", "nobody"],
)
def test_frames_that_do_not_fit_peers_and_rounds_are_refused(
    frames: tuple[str, ...], text: str
) -> None:
    with pytest.raises(InvalidInput, match=text.replace(".", r"\.")) as raised:
        built(settings(silos=5, rounds=4, time_frames=frames))
    assert "time_frames" in str(raised.value) or "min_participants" in str(raised.value)
    assert built(settings(silos=5, rounds=4, time_frames=FRAMES)).schedule.smallest == 3


def test_the_smallest_group_is_as_large_as_was_asked_for_and_three_at_least() -> None:
    of_two = ("1-4", "1-2", "1-2", "3-4", "4-4")
    for other, text in (
        ({"time_frames": of_two}, r"stay in `time_frames`\.$"),
        ({"min_participants": 4}, "(?s)In round 1 3 peers .* 4 must.*lower `min_participants`"),
        ({"colluders": 2}, "in the smallest round"),
    ):
        with pytest.raises(InvalidInput, match=text):
            built(settings(silos=5, rounds=4, **{"time_frames": FRAMES, **other}))
    assert built(settings(silos=5, rounds=4, colluders=2))  # all five in all rounds leave two


def test_sizes_of_groups_are_those_of_every_round() -> None:
    """By stretches of rounds as by all rounds, one by one; a log may say any number of these."""
    assert Schedule(("1-999999999",) * 5, 5, 10**9 - 1, 3).smallest == 5
    random = np.random.default_rng(5)
    for _ in range(200):
        rounds = int(random.integers(1, 12))
        ends = np.sort(random.integers(1, rounds + 1, (6, 2)), axis=1)
        frames = (f"1-{rounds}",) * 3 + tuple(f"{first}-{last}" for first, last in ends)
        schedule = Schedule(frames, 9, rounds, 3)
        sizes = [len(schedule.members(number)) for number in range(1, rounds + 1)]
        assert schedule.smallest == min(sizes)


# --- the sum ------------------------------------------------------------------------------------


def members_of(number: int) -> list[int]:
    """Return who takes part in a round, read from the frames by hand."""
    return [[0, 1, 2], [0, 1, 2, 4], [0, 3, 4], [0, 3, 4]][number - 1]


def again(system: Any, seed: int) -> list[Any]:
    """Return the models of a run with a fixed clip, computed a second time by plain loops."""
    setup, clip = system.setup, system.setup.training.clip
    local, silo = setup.local, setup.federation.silo
    square = (Fraction(system.promise.noise_multiplier) * Fraction(clip)) ** 2 / 3
    streams, parameters = Streams.seeded(seed), system.initial()
    kept: dict[int, Any] = {}
    models = [parameters]
    for number in range(1, 5):
        group = members_of(number)
        share = root_up(Fraction(root_up(square * len(group))) ** 2 / len(group))
        grid = 2.0 ** (math.floor(math.log2(share)) - 20)
        parameter = root_up((Fraction(share) / Fraction(grid)) ** 2 + 64)
        total = [0] * parameters.size
        for peer in group:
            records = np.flatnonzero(silo == peer)
            if setup.privacy.unit == "record":
                rows = [-local.gradient(parameters, np.array([one])) for one in records]
            else:
                rows = [local.delta(parameters, records)]
            for row in rows:
                steps = integers_of(row, clip, grid)
                total = [one + int(step) for one, step in zip(total, steps, strict=True)]
        for peer in group:
            if peer not in kept:
                kept[peer] = streams.stream(f"noise/silo-{peer}")
            drawn = discrete_gaussian(kept[peer], parameters.size, parameter)
            total = [one + int(step) for one, step in zip(total, drawn, strict=True)]
        divisor = float(system.table.divisor or len(group))
        rate = setup.training.global_rate
        parameters = parameters + rate / divisor * (np.array(total, np.float64) * grid)
        models.append(parameters)
    return models


@for_each("unit", ["silo", "record"])
@for_each("variant", list(WITH_FRAMES))
def test_who_is_absent_has_no_term_and_no_share(variant: str, unit: str) -> None:
    own = settings(*WITH_FRAMES[variant], silos=5, rounds=4, unit=unit, time_frames=FRAMES)
    made, _ = models_of(built(own, local=InTensors), seed=7)
    expected = again(built(own, local=InTensors), 7)
    assert len(made) == len(expected) == 5
    for (parameters, _), other in zip(made, expected, strict=True):
        assert np.array_equal(parameters, other)
    assert not np.array_equal(expected[0], expected[1])


@for_each("clip", ["fixed", "previous", "quantile"])
def test_an_absent_peer_changes_nothing(clip: str) -> None:
    """Whatever peer 3 holds in rounds 1 and 2, the models and clips of these are the same."""
    honest = np.full((5, 4), 0.2)
    other = honest.copy()
    other[3] = [math.inf, -9.0, 1e300, 0.0]
    own = settings(silos=5, rounds=4, time_frames=FRAMES, clip=clip)
    runs = [models_of(built(own, rows=rows), rounds=3)[0] for rows in (honest, other)]
    for number in (1, 2):
        (one, state), (two, second) = (made[number] for made in runs)
        assert np.array_equal(one, two)
        assert all(np.array_equal(state[key], second[key]) for key in state)
    assert not np.array_equal(runs[0][3][0], runs[1][3][0])  # and in round 3 it counts


@for_each("clip", ["fixed", "previous", "quantile"])
@for_each("variant", list(WITH_FRAMES))
def test_every_share_is_that_of_the_smallest_group(variant: str, clip: str) -> None:
    own = settings(*WITH_FRAMES[variant], silos=5, rounds=4, clip=clip, time_frames=FRAMES)
    system = built(own)
    _, log = models_of(system)
    parts = {"clip": math.sqrt(10.0), "train": math.sqrt(10.0 / 9.0) if clip == "quantile" else 1.0}
    for intent in log.intents:
        group = members_of(intent.round)
        assert intent.silos == tuple(group)
        assert intent.noise.shares == len(group)
        share = 3.0 * parts[intent.phase] * intent.contribution.bound / math.sqrt(3)
        assert share <= intent.noise.share_std * (1 + 1e-15)
        assert intent.noise.share_std == pytest.approx(share, rel=1e-12)
        assert intent.noise.std == pytest.approx(share * math.sqrt(len(group)), rel=1e-12)
    for release in log.releases:
        group = members_of(log.records[release.intent].round)
        assert release.shares in (None, len(group))
        assert len(release.streams) == len(group)
        if release.normaliser is not None:
            assert release.normaliser.value == len(group)


# --- the number ---------------------------------------------------------------------------------


def rounds_of(frame: str) -> int:
    first, last = map(int, frame.split("-"))
    return last - first + 1


def closed(observer: str, noise: str, aggregation: str, frames: Any, told: int = 0) -> float:
    """Return epsilon of the longest frame, by a closed form.

    A share is s = z C / sqrt(m), and a unit that is replaced moves each of its k sums by 2 C:
    mu = 2 C sqrt(k) / (s sqrt(h)), where h shares hide it: m - 1 - c of the sum from a peer, 1 of a
    message, m of the sum from who adds none.
    """
    rounds = max(int(frame.split("-")[1]) for frame in frames)
    pairs = [tuple(map(int, frame.split("-"))) for frame in frames]
    groups = [sum(a <= t <= b for a, b in pairs) for t in range(1, rounds + 1)]
    smallest, longest = min(groups), max(map(rounds_of, frames))
    hidden = smallest
    if observer == "peer":
        hidden = smallest - 1 - told if noise == "shared" else 1
    if observer == "coordinator" and aggregation == "plain":
        hidden = 1
    return exact(2.0 * math.sqrt(longest * smallest / hidden) / 3.0)


SCHEDULES: Final = {
    "moving": FRAMES,
    "two groups": ("1-2", "1-2", "1-2", "3-4", "3-4", "3-4"),
    "two always": ("1-4", "1-4", "1-2", "3-4"),
    "of four": ("1-3", "1-3", "1-3", "1-6", "4-6", "4-6", "4-6"),
}


@for_each("clip", ["fixed", "previous", "quantile"])
@for_each("variant", list(WITH_FRAMES))
@for_each("name", list(SCHEDULES))
def test_the_plan_has_the_closed_form_of_the_longest_frame(
    name: str, variant: str, clip: str
) -> None:
    noise, aggregation = WITH_FRAMES[variant]
    frames = SCHEDULES[name]
    rounds = max(int(frame.split("-")[1]) for frame in frames)
    for told in (0, 1) if name == "of four" and aggregation == "shares" else (0,):
        given = {"silos": len(frames), "rounds": rounds, "colluders": told, "time_frames": frames}
        plan = built(settings(noise, aggregation, clip=clip, **given)).promise.plan
        assert len(plan.phases) == 1
        for observer in ("model", "peer", "coordinator"):
            event = plan.seen_by(observer)
            found = pp.account(event, delta=DELTA, neighbours="replace-one").epsilon.upper
            truth = closed(observer, noise, aggregation, frames, told)
            # The product rounds each multiplier by a digit of a float, never towards less.
            assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-6), observer


def test_records_have_the_numbers_of_peers() -> None:
    for variant in WITH_FRAMES:
        noise, aggregation = WITH_FRAMES[variant]
        own = settings(noise, aggregation, silos=5, rounds=4, unit="record", time_frames=FRAMES)
        plan = built(own).promise.plan
        for observer in ("model", "peer", "coordinator"):
            found = pp.account(plan.seen_by(observer), delta=DELTA, neighbours="replace-one")
            truth = closed(observer, noise, aggregation, FRAMES)
            assert found.epsilon.upper == pytest.approx(truth, rel=1e-6), (variant, observer)


def test_frames_of_all_rounds_are_everybody() -> None:
    everybody, framed = (
        built(settings(silos=3, rounds=3, time_frames=frames))
        for frames in ((), ("1-3", "1-3", "1-3"))
    )
    assert everybody.promise.claim == framed.promise.claim
    for one, other in zip(models_of(everybody)[0], models_of(framed)[0], strict=True):
        assert np.array_equal(one[0], other[0])


one_frame = st.tuples(st.integers(1, 6), st.integers(1, 6)).map(lambda pair: tuple(sorted(pair)))
frames_of_five = st.lists(one_frame, min_size=2, max_size=4)


@given(others=frames_of_five, data=st.data())
@examples(max_examples=40, deadline=None)
def test_a_longer_frame_never_lowers_the_number(
    others: list[tuple[int, int]], data: st.DataObject
) -> None:
    """At given noise; where the smallest group grows with it, that hides better from peers."""
    pairs = [(1, 6), (1, 2), (1, 2), (3, 6), (3, 6), *others]
    peer = data.draw(st.integers(0, len(pairs) - 1))
    first, last = pairs[peer]
    longer = list(pairs)
    longer[peer] = (data.draw(st.integers(1, first)), data.draw(st.integers(last, 6)))
    noise, aggregation = data.draw(st.sampled_from(list(WITH_FRAMES.values())))
    before, after = (
        Schedule(tuple(f"{one}-{two}" for one, two in each), len(each), 6, 3)
        for each in (pairs, longer)
    )
    one, other = (numbers_at_given_noise(each, noise, aggregation) for each in (before, after))
    assert other["model"] >= one["model"]
    if before.smallest == after.smallest:
        assert all(other[observer] >= one[observer] for observer in one)


def numbers_at_given_noise(schedule: Schedule, noise: Any, aggregation: str) -> dict[str, float]:
    views = views_of(NoiseTerms(noise, schedule.smallest, 0, aggregation, "silo"), 3.0)
    rounds = schedule.most_rounds
    assert rounds is not None
    proven = {
        observer: pp.account(ev.Repeat(rounds, event), delta=DELTA, neighbours="replace-one")
        for observer, event in views.items()
    }
    return {observer: one.epsilon.upper for observer, one in proven.items()}


def test_a_longer_frame_raises_the_number_of_a_run() -> None:
    """Frames of one more peer, of 1 to 4 rounds: the longest frame has 2, 2, 3 and 4 rounds."""
    kept = []
    for last in range(1, 5):
        frames = ("1-2", "1-2", "1-2", "3-4", "3-4", "3-4", f"1-{last}")
        plan = built(settings(silos=7, rounds=4, time_frames=frames)).promise.plan
        found = pp.account(plan.seen_by("model"), delta=DELTA, neighbours="replace-one")
        kept.append(found.epsilon.upper)
    assert kept[0] == kept[1] < kept[2] < kept[3]
