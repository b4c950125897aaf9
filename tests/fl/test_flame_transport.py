"""FLAME's transports: equal results under one seed, what the log says, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.audit.verify import verify
from privplan.fl.crypto.paillier.processes import Workers
from privplan.fl.crypto.sealed_box import BoxKey, sealed
from privplan.fl.flame.sealing_cost import MOST_SEALED, processor_seconds, sealed_messages
from privplan.fl.observers.stated_assumptions import BLIND_SHUFFLER
from privplan.fl.running.preparation import prepare
from privplan.fl.shuffling import Shuffling, Terms
from privplan.fl.shuffling import terms as shuffling_terms
from privplan.fl.shuffling.ideal import IdealShuffling

from ..cases import for_each
from .flame_runs import flame, run
from .shuffled_rounds import OWN, opened
from .small_runs import of

WAYS = {
    "simple": ("flame-simple", {}),
    "double, refused": ("flame-double", {"padded_to": "12"}),
    "double, capped": ("flame-double", {"padded_to": "2", "overflow": '"cap"'}),
    "topk": ("flame-topk", {}),
    "topk with decoys": ("flame-topk", {"decoys": "4"}),
}


@for_each(
    "way, randomizer",
    [(way, ("responses", "laplace")[number % 2]) for number, way in enumerate(WAYS)],
)
def test_both_transports_release_the_same(way: str, randomizer: str, tmp_path: Path) -> None:
    system, table = WAYS[way]
    found = {}
    for transport in ("sealed", "ideal"):
        keys = {"transport": f'"{transport}"', "randomizer": f'"{randomizer}"', **table}
        folder = tmp_path / transport
        run(flame(system, flame=keys), folder)
        releases = of(folder, records.RoundRelease)
        assert len(releases) == 2
        assert verify(folder).complete
        found[transport] = [(one.model_out, one.streams) for one in releases]
    # The model as it is released, bit for bit, and the randomness that is stated.
    assert found["sealed"] == found["ideal"]
    assert found["sealed"][0] != found["sealed"][1]


@for_each("overflow", ["refuse", "cap"])
@for_each("block", [7, 2**20])
def test_sums_are_equal_wherever_draws_are_cut(
    overflow: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffling_terms, "BLOCK_MESSAGES", block)
    n_p = 9 if overflow == "cap" else 20
    terms = Terms(20, 6, 2, padded_to=n_p, overflow=overflow)  # type: ignore[arg-type]
    rng = np.random.default_rng(3)
    places = np.array([rng.permutation([0, 0, 1, 2, 3, 4, 5])[:2] for _ in range(20)])
    places[places[:, 0] == places[:, 1]] = [0, 1]
    places[:12] = [0, 1]  # too many for a cap
    messages = 10**12 + np.arange(40).reshape(20, 2)
    more = {"places": places, "mechanism": OWN}
    plain = IdealShuffling(terms).round(1, opened(), messages, **more)
    boxed = Shuffling(terms).round(1, opened(), messages, **more)
    assert plain.sums.tolist() == boxed.sums.tolist()
    other = IdealShuffling(terms).round(1, opened(seed=2), messages, **more)
    assert plain.sums.tolist() != other.sums.tolist()  # another seed, other dummies


def test_a_cap_that_every_coordinate_passes_draws_the_same() -> None:
    terms = Terms(6, 2, 1, padded_to=2, overflow="cap")
    places, messages = np.array([[0]] * 3 + [[1]] * 3), np.arange(6)[:, None]
    stated = []
    for carrier in (Shuffling(terms), IdealShuffling(terms)):
        ticket = opened()
        sums = carrier.round(1, ticket, messages, places=places, mechanism=OWN).sums
        streams = [ticket.stream(f"shuffler/{name}").position for name in ("order", "dummies")]
        stated.append((sums.tolist(), streams))
    assert stated[0] == stated[1]
    assert stated[0][1][1] > 0  # drawn, though none was needed


def test_what_a_cap_leaves_out_is_uniform() -> None:
    """One of three messages stays in its place: each a third of 600 seeded rounds."""
    terms = Terms(3, 2, 1, padded_to=1, overflow="cap")
    places, messages = np.zeros((3, 1), int), 2**40 * (1 + np.arange(3))[:, None]
    kept = [
        IdealShuffling(terms).round(1, opened(seed=seed), messages, places=places, mechanism=OWN)
        for seed in range(600)
    ]
    counts = np.bincount([int(one.sums[0, 0]) >> 40 for one in kept], minlength=4)[1:]
    assert counts.sum() == 600
    # Binomial deviation 11.5: beyond 60 once in 10^6.
    assert np.abs(counts - 200).max() < 60


def test_too_many_and_too_large_end_an_ideal_round_as_well() -> None:
    terms = Terms(4, 2, 1, padded_to=3)
    with pytest.raises(ProtocolFault, match="more messages than it is padded to"):
        IdealShuffling(terms).round(
            1, opened(), np.zeros((4, 1), int), places=np.zeros((4, 1), int), mechanism=OWN
        )
    large = np.array([[0], [0], [0], [2**62]])
    with pytest.raises(ProtocolFault, match="too large to be summed"):
        IdealShuffling(Terms(4)).round(1, opened(), large)
    with pytest.raises(InvalidInput, match="tell the analyzer nothing"):
        IdealShuffling(Terms(4), colluders=3)
    with pytest.raises(InvalidInput, match="several integers"):
        IdealShuffling(Terms(4, width=2))


def test_the_log_says_whether_anything_was_encrypted(tmp_path: Path) -> None:
    for transport, bits, rests in (("sealed", 256, ()), ("ideal", 0, (BLIND_SHUFFLER,))):
        settings = flame(flame={"transport": f'"{transport}"', "padded_to": "12"})
        run(settings, tmp_path / transport)
        (opening,) = of(tmp_path / transport, records.RunOpen)
        assert opening.security.protocol == "shuffler"
        assert opening.security.key_bits == bits
        assert opening.security.parties == opening.security.fewest == 12
        reaches = prepare(settings).system.reaches()
        assert reaches["analyzer"].rests_on == rests
        assert reaches["model"].rests_on == rests


def test_processes_change_nothing(tmp_path: Path) -> None:
    key, workers = BoxKey(), Workers(2)
    contents = [bytes([number]) * 9 for number in range(7)]
    raw = sealed(key.public, contents, workers)
    size = len(raw) // 7
    boxes = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert len(set(boxes)) == 7
    assert key.opened(boxes, workers) == contents
    assert key.opened([b"short", boxes[0]], workers) == [None, contents[0]]
    assert "secret" in repr(key.opened(boxes, workers)[0])
    released = []
    for processes in ("1", "2"):
        tables = {"flame": {"padded_to": "12"}, "security": {"processes": processes}}
        run(flame(**tables), tmp_path / processes)
        released.append([one.model_out for one in of(tmp_path / processes, records.RoundRelease)])
    assert released[0] == released[1]


@for_each(
    ("sizes", "messages"),
    [
        ((1_000, 65, 650, 333), 216_450),
        ((1_000, 650, 650, None), 650_000),
        ((1_000, 785, 7_850, 333), 2_614_050),
        ((1_000, 65, 100, 2), 65_000),
    ],
)
def test_messages_are_counted_before_anything_runs(sizes: tuple[int, ...], messages: int) -> None:
    assert sealed_messages(*sizes) == messages
    assert processor_seconds(messages) == pytest.approx(messages * 128e-6)


def test_too_many_ciphertexts_are_refused_with_their_cost() -> None:
    # The keys alone tell it: 1,000 users send 1,200 coordinates each.
    with pytest.raises(InvalidInput) as caught:
        flame(data={"users": "1000"}, flame={"chosen": "1200"})
    assert str(caught.value) == (
        "run.toml seals 1,200,000 messages or more a round, by 1,000 users and [flame]. Each needs "
        "a ciphertext of its own: about 154 seconds of processor time a round, and at most "
        '1,000,000 messages are sealed. Write transport = "ideal" under [flame], which supposes a '
        "shuffler that cannot read; or have a smaller model, fewer users or a smaller `padded_to`."
    )
    flame(data={"users": "1000"}, flame={"chosen": "1200", "transport": '"ideal"'})
    flame(data={"users": "1000"}, flame={"chosen": "1000"})  # as many as are sealed at most


def test_a_model_that_needs_too_many_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("privplan.fl.flame.system.MOST_SEALED", 100)
    with pytest.raises(InvalidInput, match=r"seals .* messages, for .* coordinates") as caught:
        prepare(flame("flame-simple"))
    assert "processor time a round" in str(caught.value)
    assert MOST_SEALED == 1_000_000
    prepare(flame("flame-simple", flame={"transport": '"ideal"'}))


def test_a_plan_says_how_long_its_ciphertexts_take() -> None:
    """12 users pad 31 coordinates to 260 messages: 8,060 a round, of 128 microseconds each."""
    many = {"flame": {"padded_to": "260"}}
    (note,) = prepare(flame(**many)).notes
    assert note.numbers["messages"] == 31 * 260
    assert note.numbers["seconds"] == pytest.approx(2 * 31 * 260 * 128e-6)
    assert "8,060 ciphertexts a round: about 2 seconds" in " ".join(note.sentences)
    assert prepare(flame()).notes == ()  # less than a second is no cost
    many["flame"]["transport"] = '"ideal"'
    assert prepare(flame(**many)).notes == ()
