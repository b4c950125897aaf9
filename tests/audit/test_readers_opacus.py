"""Opacus checkpoints as `PrivacyEngine.save_checkpoint` writes them, and states by themselves."""

from __future__ import annotations

import io
import json
import math
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.audit.check.checking import check_readings
from privplan.audit.description.run_description import Phase, Reading
from privplan.audit.description.tables import reading_of_names
from privplan.audit.readers import opacus, opacus_states, recognition, torch_archive
from privplan.audit.readers.torch_archive import pickled_member

from ..cases import for_each
from .damaged import damaged, read_or_refused
from .reader_samples import archive_of

torch = pytest.importorskip("torch")

HISTORY: Final = [(1.1, 256 / 60000, 3516)]
SCHEDULE: Final = [(2.0, 0.01, 100), (1.5, 0.01, 200), (1.0, 0.02, 50)]


class Accountant:
    """The part of Opacus' accountants that writes states."""

    def __init__(self, history: list[tuple[Any, ...]], word: str = "rdp") -> None:
        self.history, self.word = history, word

    def state_dict(self) -> OrderedDict[str, Any]:
        destination: OrderedDict[str, Any] = OrderedDict()
        destination["history"] = deepcopy(self.history)
        destination["mechanism"] = self.word
        return destination


def trained() -> tuple[Any, Any]:
    """Return a module and its optimizer after one step."""
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    return module, optimizer


def checkpoint(accountant: Accountant, **beside: object) -> dict[str, Any]:
    """Return what `save_checkpoint` saves, in its order."""
    module, optimizer = trained()
    content: dict[str, Any] = dict(beside)
    content["module_state_dict"] = module.state_dict()
    content["privacy_accountant_state_dict"] = accountant.state_dict()
    content["optimizer_state_dict"] = optimizer.state_dict()
    return content


def saved(value: object, **options: Any) -> bytes:
    """Return the file that torch.save writes."""
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def values(reading: Reading) -> dict[str, object]:
    """Return the values of a reading's facts, all of which were read."""
    assert all(
        (fact.provenance, fact.source) == ("read", reading.source)
        for fact in reading.facts.values()
    )
    return {key: fact.value for key, fact in reading.facts.items()}


def read(content: bytes) -> dict[str, object]:
    """Return the facts of a content, which is recognised."""
    assert opacus.recognises(content, "run.pt")
    return values(opacus.read(content, "run.pt"))


USUAL: Final = {
    "claim.library": "opacus",
    "claim.accountant": "rdp",
    "noise.noise_multiplier": 1.1,
    "sampling.rate": 256 / 60000,
    "schedule.steps": 3516,
}

WAYS: Final[dict[str, Callable[[Any], bytes]]] = {
    "zip": saved,
    "legacy": lambda value: saved(value, _use_new_zipfile_serialization=False),
    "zip, protocol 5": lambda value: saved(value, pickle_protocol=5),
    "legacy, protocol 4": lambda value: saved(
        value, _use_new_zipfile_serialization=False, pickle_protocol=4
    ),
}


@for_each("way", WAYS)
def test_checkpoints(way: str) -> None:
    content = WAYS[way](checkpoint(Accountant(HISTORY), epoch=14, args={"lr": 0.1}))
    assert read(content) == USUAL
    reading = opacus.read(content, "run.pt")
    assert (reading.format, reading.event) == (opacus.FORMAT, None)
    says = " ".join(reading.doubts)
    for never in ("delta", "unit", "relation", "clip", "records", "sampler", "len(loader)"):
        assert never in says
    assert recognition.read_content(content, "run.pt") == reading


@for_each("protocol", range(6))
def test_states_by_themselves_as_pickles(protocol: int) -> None:
    state = Accountant(HISTORY).state_dict()
    assert read(pickle.dumps(state, protocol=protocol)) == USUAL
    assert read(pickle.dumps({"accountant": dict(state)}, protocol=protocol)) == USUAL


def test_states_as_json_and_of_torch() -> None:
    state = Accountant(HISTORY).state_dict()
    assert read(json.dumps(state).encode()) == USUAL
    assert read(json.dumps({"privacy_accountant_state_dict": state}).encode()) == USUAL
    assert read(saved(state)) == USUAL


def test_schedules_are_phases_in_order() -> None:
    facts = read(saved(checkpoint(Accountant([*SCHEDULE, (1.0, 0.02, 5)], "prv"))))
    assert facts == {
        "claim.library": "opacus",
        "claim.accountant": "prv",
        "schedule.phases": (
            Phase(2.0, 0.01, 100),
            Phase(1.5, 0.01, 200),
            Phase(1.0, 0.02, 55),
        ),
    }


def test_numbers_of_numpy() -> None:
    history = [(np.float64(1.1), np.float64(256 / 60000), np.int64(3516))]
    assert read(saved(checkpoint(Accountant(history)))) == USUAL


@pytest.fixture
def old_opacus(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module with the name and the classes of Opacus up to 1.5, as far as pickles know it."""
    module = types.ModuleType("opacus.accountants.rdp")

    class RDPAccountant:
        history: list[Any]

        @classmethod
        def mechanism(cls) -> str:
            return "rdp"

    RDPAccountant.__module__ = module.__name__
    RDPAccountant.__qualname__ = "RDPAccountant"
    module.RDPAccountant = RDPAccountant  # type: ignore[attr-defined]
    for name in ("opacus", "opacus.accountants"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.parametrize("way", WAYS)
def test_mechanisms_that_were_saved_as_methods(way: str, old_opacus: types.ModuleType) -> None:
    state = {"history": HISTORY, "mechanism": old_opacus.RDPAccountant.mechanism}
    content = WAYS[way]({"privacy_accountant_state_dict": OrderedDict(state)})
    assert b"opacus.accountants.rdp" in content
    assert read(content) == USUAL


@pytest.mark.parametrize("protocol", range(2, 6))
def test_accountants_that_were_saved_themselves(
    protocol: int, old_opacus: types.ModuleType
) -> None:
    accountant = old_opacus.RDPAccountant()
    accountant.history = HISTORY
    assert read(pickle.dumps(accountant, protocol=protocol)) == USUAL
    assert read(pickle.dumps({"privacy": accountant}, protocol=protocol)) == USUAL


def test_checkpoints_of_lightning() -> None:
    module, optimizer = trained()
    content = {
        "epoch": 2,
        "global_step": 705,
        "pytorch-lightning_version": "2.2.0",
        "state_dict": module.state_dict(),
        "loops": {"fit_loop": {"state_dict": {}}},
        "callbacks": {"Privacy": {"accountant": Accountant(HISTORY).state_dict()}},
        "optimizer_states": [optimizer.state_dict()],
    }
    assert read(saved(content)) == USUAL


@for_each(
    ("state", "expected"),
    [
        ({"steps": [[1.1, 0.01, 5]], "mechanism": "rdp"}, 5),
        ({"steps": 5, "noise_multiplier": 1.1, "sample_rate": 0.01}, 5),
    ],
)
def test_old_states(state: dict[str, Any], expected: int) -> None:
    facts = read(json.dumps(state).encode())
    assert facts["schedule.steps"] == expected
    assert facts["noise.noise_multiplier"] == 1.1
    assert facts["sampling.rate"] == 0.01


def test_states_that_count_steps_only() -> None:
    reading = opacus.read(saved({"privacy_engine": {"steps": 12}}), "run.pt")
    assert values(reading) == {"claim.library": "opacus", "schedule.steps": 12}
    assert any("counted steps only" in doubt for doubt in reading.doubts)


@for_each(
    ("word", "says"),
    [("gdp", "central limit"), ("zcdp-mine", "does not have"), (None, "does not say which")],
)
def test_accountants_that_are_in_doubt(word: Any, says: str) -> None:
    state = {"history": HISTORY} | ({} if word is None else {"mechanism": word})
    reading = opacus.read(json.dumps(state).encode(), "state.json")
    assert values(reading).get("claim.accountant") == word
    assert any(says in doubt for doubt in reading.doubts)
    usual = opacus.read(json.dumps(state | {"mechanism": "prv"}).encode(), "state.json")
    assert not any(says in doubt for doubt in usual.doubts)


def test_swapped_numbers_are_doubted_and_never_swapped() -> None:
    reading = opacus.read(b'{"history": [[0.01, 0.9, 20]], "mechanism": "rdp"}', "state.json")
    assert values(reading)["noise.noise_multiplier"] == 0.01
    assert values(reading)["sampling.rate"] == 0.9
    assert any("may be swapped" in doubt for doubt in reading.doubts)
    for usual in ("[0.4, 0.9, 20]", "[0.05, 0.01, 20]", "[1.0, 1.0, 20]"):
        content = f'{{"history": [{usual}], "mechanism": "rdp"}}'.encode()
        assert not any("swapped" in doubt for doubt in opacus.read(content, "s").doubts)
    with pytest.raises(InvalidInput, match="may be swapped"):
        opacus.read(b'{"history": [[0.01, 1.1, 20]], "mechanism": "rdp"}', "state.json")


def test_steps_without_noise_have_no_guarantee() -> None:
    reading = opacus.read(b'{"history": [[1, 0.1, 2], [0.0, 0.1, 1]]}', "state.json")
    assert values(reading)["schedule.phases"] == (Phase(1.0, 0.1, 2), Phase(0.0, 0.1, 1))
    assert any("no noise" in doubt for doubt in reading.doubts)
    result = check_readings([reading, *stated_claim("1000", "poisson")])
    assert result.verdict == "false"
    assert result.proven is not None
    assert result.proven.upper == math.inf


def test_noise_too_small_for_any_grid_proves_the_claim_false() -> None:
    for noise in ("0.0", "1e-308"):
        content = f'{{"history": [[{noise}, 0.1, 20]], "mechanism": "rdp"}}'.encode()
        reading = opacus.read(content, "state.json")
        assert check_readings([reading, *stated_claim("3", "poisson")]).verdict == "false"


def stated_claim(epsilon: str, method: str) -> list[Reading]:
    said = {"claim.epsilon": epsilon, "claim.delta": 1e-5, "sampling.method": method}
    return [reading_of_names(said, "the test")]


@for_each(
    ("state", "says"),
    [
        ('{"history": [], "mechanism": "rdp"}', "is empty"),
        ('{"history": [[NaN, 0.1, 2]]}', "noise multiplier"),
        ('{"history": [[Infinity, 0.1, 2]]}', "noise multiplier"),
        ('{"history": [[-1.0, 0.1, 2]]}', "noise multiplier"),
        ('{"history": [["1.0", 0.1, 2]]}', "noise multiplier"),
        ('{"history": [[true, 0.1, 2]]}', "noise multiplier"),
        ('{"history": [[1.0, 0.0, 2]]}', "sample rate"),
        ('{"history": [[1.0, NaN, 2]]}', "sample rate"),
        ('{"history": [[1.0, 0.1, 0]]}', "steps"),
        ('{"history": [[1.0, 0.1, 2.5]]}', "steps"),
        ('{"history": [[1.0, 0.1, 1e400]]}', "steps"),
        ('{"history": [[1.0, 0.1, 2], [1.0, 0.1]], "mechanism": "rdp"}', "must be (noise"),
        ('{"history": [[1.0, 0.1, 2], 7], "mechanism": "rdp"}', "must be (noise"),
        (
            '{"accountant": {"history": [[1.0, 0.1, 2]]}, "opacus": {"history": [[2.0, 0.1, 2]]}}',
            "that differ: `accountant`, `opacus`",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(state: str, says: str) -> None:
    assert opacus.recognises(state.encode(), "state.json")
    with pytest.raises(InvalidInput) as caught:
        opacus.read(state.encode(), "state.json")
    assert says in str(caught.value)
    assert caught.value.next_step


def test_a_state_in_two_places_is_one_and_its_copy_is_not() -> None:
    state = Accountant(HISTORY).state_dict()
    assert read(pickle.dumps({"accountant": state, "opacus": state})) == USUAL
    for twice in (
        {"accountant": state, "opacus": state},
        {"stage1_accountant": state, "stage2_accountant": state},
        {"client_0": {"accountant": state}, "client_1": {"accountant": state}},
    ):
        with pytest.raises(InvalidInput, match="holds 2 accountant states:"):
            opacus.read(json.dumps(twice).encode(), "state.json")


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"inner": value}
    return value


@for_each(
    "hidden",
    [
        lambda state: [{"accountant": state}],
        lambda state: {"a": {"b": {"c": {"d": {"accountant": state}}}}},
        lambda state: {7: {"accountant": state}},
        lambda state: {"x" * 500: {"accountant": state}},
        lambda state: {"a": [[("b", {"accountant": state})]]},
    ],
)
def test_a_second_state_is_noticed_wherever_it_lies(hidden: Any) -> None:
    state, other = Accountant(HISTORY).state_dict(), Accountant(SCHEDULE).state_dict()
    content = {"privacy_accountant_state_dict": state, "clients": hidden(other)}
    with pytest.raises(InvalidInput, match="2 accountant states that differ"):
        opacus.read(pickle.dumps(content), "state.pkl")
    assert read(pickle.dumps({"clients": hidden(state)})) == USUAL


def test_what_is_nested_too_deeply_is_refused() -> None:
    content = {"accountant": Accountant(HISTORY).state_dict(), "b": nested({}, 10)}
    assert read(pickle.dumps(content)) == USUAL
    deep = nested({"accountant": Accountant(SCHEDULE).state_dict()}, 30)
    with pytest.raises(InvalidInput, match="nested more than 20 deep"):
        opacus.read(pickle.dumps(content | {"b": deep}), "state.pkl")
    laughing = content | {"b": laughs()}
    with pytest.raises(InvalidInput, match="nested more than 20 deep"):
        opacus.read(pickle.dumps(laughing), "state.pkl")


def test_unknown_keys_of_a_state_are_named() -> None:
    state = {**Accountant(HISTORY).state_dict(), "epsilon": 5, "unit": "user", "steps": 99_999}
    reading = opacus.read(json.dumps(state).encode(), "state.json")
    assert values(reading) == USUAL
    assert any("'epsilon', 'unit', 'steps'" in doubt for doubt in reading.doubts)


@for_each(
    "value",
    [
        {"history": {"loss": [0.1, 0.2]}},
        {"history": [0.1, 0.2, 0.3]},
        {"loss": {"history": [[1.0, 0.1, 2]]}},
        {"privacy": {"steps": 100, "noise_multiplier": 1.0, "delta": 1e-5}},
        {"steps": 100, "noise_multiplier": 1.0, "batch": 10},
        [1, 2],
    ],
)
def test_other_json_is_not_recognised(value: object) -> None:
    assert not opacus.recognises(json.dumps(value).encode(), "file.json")


def test_checkpoints_without_a_state_say_where_it_is_looked_for() -> None:
    module, _ = trained()
    with pytest.raises(InvalidInput, match="holds no accountant state") as caught:
        opacus.read(saved(module.state_dict()), "run.pt")
    assert "privacy_accountant_state_dict" in caught.value.why


def test_a_whole_module_is_refused_by_the_name_of_its_class() -> None:
    module, _ = trained()
    with pytest.raises(InvalidInput, match=r"would run `torch\.nn\.modules\.container"):
        opacus.read(saved({"model": module}), "run.pt")


# --- archives -------------------------------------------------------------------------------------


class Counting(io.BytesIO):
    """A stream that counts the bytes that are read of it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.count += len(content)
        return content


def test_tensors_are_never_read() -> None:
    big = checkpoint(Accountant(HISTORY), weights=torch.zeros(4_000_000))
    stream = Counting(saved(big))
    assert len(stream.getbuffer()) > 16_000_000
    assert read(pickled_member(stream, "run.pt")) == USUAL
    assert stream.count < 400_000


def test_damaged_tensors_are_not_noticed() -> None:
    content = bytearray(saved(checkpoint(Accountant(HISTORY), weights=torch.full((999,), 7.5))))
    position = content.find(b"\x00\x00\xf0\x40" * 50)
    content[position : position + 4] = b"\xff\xff\xff\xff"
    assert read(bytes(content)) == USUAL


STATE: Final = pickle.dumps({"history": HISTORY, "mechanism": "rdp"}, protocol=2)


@for_each(
    ("members", "says"),
    [
        ({"a/data.pkl": STATE, "b/data.pkl": STATE}, "with 2 members"),
        ({"a/other.pkl": STATE}, "with 0 members"),
    ],
)
def test_archives_have_one_pickle(members: dict[str, bytes], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        opacus.read(archive_of(members), "run.pt")


def test_archives_that_unpack_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_archive, "MAX_PICKLE_BYTES", 2**20)
    bomb = archive_of({"a/data.pkl": bytes(2**22)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 2**14
    with pytest.raises(InvalidInput, match="larger than 1 MiB"):
        opacus.read(bomb, "run.pt")
    monkeypatch.setattr(torch_archive, "MAX_DIRECTORY_BYTES", 2**12)
    many = archive_of({"a/data.pkl": STATE} | {f"a/{index}": b"" for index in range(200)})
    with pytest.raises(InvalidInput, match="directory"):
        opacus.read(many, "run.pt")


@for_each("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_archives_are_packed_as_torch_packs_them(method: int) -> None:
    assert read(archive_of({"a/data.pkl": STATE}, zipfile.ZIP_DEFLATED)) == USUAL
    with pytest.raises(InvalidInput, match="packs it in a way"):
        opacus.read(archive_of({"a/data.pkl": STATE}, method), "run.pt")


@for_each("cut", [10, 30, 60])
def test_archives_that_are_cut_off(cut: int) -> None:
    with pytest.raises(InvalidInput, match="none that can be read"):
        opacus.read(archive_of({"a/data.pkl": STATE})[:-cut], "run.pt")


FILES: Final = [way(checkpoint(Accountant(SCHEDULE))) for way in WAYS.values()] + [
    archive_of({"a/data.pkl": STATE}),
    STATE,
    pickle.dumps(Accountant(HISTORY).state_dict(), protocol=0),
    json.dumps({"accountant": Accountant(SCHEDULE).state_dict()}).encode(),
]


@settings(max_examples=500, deadline=None)
@given(damaged(FILES) | damaged(FILES[4:]) | st.binary(max_size=100))
def test_damaged_files_are_read_or_refused(content: bytes) -> None:
    read_or_refused(opacus.recognises, opacus.read, content)


# --- values that are nested without end -----------------------------------------------------------


def laughs() -> list[Any]:
    """Return a short list that has 2^100 members if it is walked."""
    value: list[Any] = [1.0, 2.0]
    for _ in range(100):
        value = [value, value]
    return value


@for_each(
    "content",
    [
        {"history": [(laughs(), 0.1, 5)]},
        {"history": [(1.0, laughs(), 5)]},
        {"history": [(1.0, 0.1, laughs())]},
        {"history": [laughs()], "mechanism": "rdp"},
        {"history": laughs(), "mechanism": laughs()},
        {"steps": laughs(), "noise_multiplier": 1.0},
        {"accountant": {"history": laughs(), "mechanism": "rdp"}, "b": {"mechanism": "rdp"}},
        {
            "accountant": {"history": [(1.0, 0.1, laughs())]},
            "opacus": {"history": [(1.0, 0.1, laughs())]},
        },
    ],
)
def test_laughs_are_refused_at_once(content: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        opacus.read(pickle.dumps(content), "state.pkl")


def test_tables_are_looked_into_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: dict[str, Any] = {f"key {index}": {} for index in range(300)}
    content: dict[str, Any] = {f"key {index}": shared for index in range(300)}
    content["privacy_accountant_state_dict"] = Accountant(HISTORY).state_dict()
    monkeypatch.setattr(opacus_states, "MAX_TABLES", 1_000)
    assert read(pickle.dumps(content)) == USUAL
    content |= {f"other {index}": {} for index in range(1_000)}
    with pytest.raises(InvalidInput, match="more than 1,000 tables"):
        opacus.read(pickle.dumps(content), "state.pkl")


def test_a_second_state_is_never_lost() -> None:
    """Keys with dots in them, and states beyond those that are compared."""
    states = {"a": {"b": {"mechanism": "rdp", "history": [(1.0, 0.1, 5)]}}}
    dotted = {"a.b": {"mechanism": "rdp", "history": [(2.0, 0.1, 5)]}}
    with pytest.raises(InvalidInput, match="2 accountant states that differ"):
        opacus.read(pickle.dumps(states | dotted), "state.pkl")
    same = Accountant(HISTORY).state_dict()
    many = {f"accountant {index}": deepcopy(same) for index in range(20)}
    with pytest.raises(InvalidInput, match="20 accountant states"):
        opacus.read(pickle.dumps(many), "state.pkl")
