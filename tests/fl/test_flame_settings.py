"""What a configuration of FLAME's systems may say; all else is refused before the first intent."""

from __future__ import annotations

from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.declarations.given_settings import GivenSettings
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.flame.settings import RULES, TABLE, FlameSettings
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .configured import read, written
from .extras import needs
from .flame_runs import flame
from .refusals import refusals

pytestmark = needs("sklearn", "nacl", "torch")

WRITTEN = refusals(
    """
flame-topk | flame.chosen = 0
    `chosen` must be an integer, 1 or above; it is 0
    Give `chosen` a value in that range.
flame-simple | flame.chosen = 3
    gives `chosen` in [flame], and flame-simple has no use for it
    Leave `chosen` out
flame-simple | flame.padded_to = 20
    gives `padded_to` in [flame], and flame-simple has no use for it
    Leave `padded_to` out
flame-double | flame.decoys = 3
    gives `decoys` in [flame], and flame-double has no use for it
    Leave `decoys` out
flame-topk | flame.decoys = -1
    `decoys` must be an integer, 0 or above; it is -1
    Give `decoys` a value in that range.
flame-double | flame.padded_to = 1
    `padded_to` must be an integer, 2 or above; it is 1
    Give `padded_to` a value in that range.
flame-double | privacy.neighbours = "add-remove"
    flame-double is accounted under replace-one alone
    Write neighbours = "replace-one", or leave it out.
flame-simple | privacy.neighbours = "zero-out"
    flame-simple is accounted under replace-one alone
    Write neighbours = "replace-one", or leave it out.
flame-topk | privacy.unit = "record"
    needs `unit` in [privacy] to be user; it is "record"
    Write unit = "user", or leave it out.
flame-topk | privacy.unit = "silo"
    needs `unit` in [privacy] to be user; it is "silo"
    Write unit = "user", or leave it out.
flame-double | data.silos = 2
    has silos = 2 in [data], and FLAME's users send for themselves
    Write silos = 1, or leave it out.
flame-double | flame.steps = 4
    gives `steps` in [flame] with randomizer = "laplace"
    Leave `steps` out, or write randomizer = "responses".
flame-double | flame.steps = 0; flame.randomizer = "responses"
    `steps` must be an integer, 1 or above; it is 0
    Give `steps` a value in that range.
flame-double | flame.transport = "ideal"; security.processes = 2
    gives `processes` in [security] with transport = "ideal" in [flame]
    Leave `processes` out, or write transport = "sealed".
flame-simple | flame.transport = "ideal"; security.keep_transcripts = true
    gives `keep_transcripts` in [security] with transport = "ideal" in [flame]
    Leave `keep_transcripts` out, or write transport = "sealed".
flame-double | privacy.sampling_rate = 0.5
    gives `sampling_rate` in [privacy], and flame-double has no use for it
    Leave `sampling_rate` out
flame-double | data.normalisation = "private"; privacy.normalisation_noise = 5.0
    and flame-double cannot pay for it
    Write normalisation = "public"
flame-double | security.aggregation = "masked"
    has aggregation = "masked" in [security], and flame-double cannot sum by it
    Write aggregation = "shuffle"
flame-double | security.dropouts = 1
    gives `dropouts` in [security], which aggregation = "shuffle" has no use for
    Leave `dropouts` out
"""
)


@for_each("name", WRITTEN)
def test_a_configuration_that_contradicts_itself_is_refused(name: str) -> None:
    system, tables, said, way_out = WRITTEN[name]
    with pytest.raises(InvalidInput) as caught:
        flame(system, **tables)
    assert said in str(caught.value)
    assert caught.value.why
    assert way_out in str(caught.value.next_step)


@for_each("system", ["flame-double", "flame-topk"])
def test_who_chooses_must_say_how_many(system: str) -> None:
    without = written(system).replace(b"chosen = 2\n", b"")
    with pytest.raises(InvalidInput, match=r"lacks `chosen` in \[flame\]") as caught:
        parse(without, "run.toml")
    assert "sends so many coordinates" in str(caught.value.why)
    assert caught.value.next_step == "Write chosen = 65 under [flame], for example."
    parse(written("flame-simple"), "run.toml")


def test_every_rule_refuses_something_and_lets_the_rest_pass() -> None:
    """Rules are asked by themselves: another one in front could hide that one says nothing."""
    run = {"run": {"system": "flame-double"}, "data": {"name": "breast-cancer", "users": 1_000}}
    complaints: dict[str, Any] = {
        "chosen_given": {"flame": {}},
        "one_silo": {"data": {"name": "breast-cancer", "silos": 2}},
        "words_have_steps": {"flame": {"steps": 3}},
        "few_sealed": {"flame": {"chosen": 1_001}},
        "no_idle_processes": {"flame": {"transport": "ideal"}, "security": {"processes": 2}},
        "transcripts_of_messages": {
            "flame": {"transport": "ideal"},
            "security": {"keep_transcripts": True},
        },
    }
    for rule in RULES:
        if rule.__name__ not in complaints:  # see the tests of FLAME as published
            continue
        complaint = rule(GivenSettings({**run, **complaints.pop(rule.__name__)}))
        assert complaint is not None, rule.__name__
        assert all(complaint), rule.__name__
        usual = {**run, "data": {**run["data"], "silos": 1}, "flame": {"chosen": 5}}
        assert rule(GivenSettings(usual)) is None
    assert not complaints


PASSED: dict[str, tuple[str, dict[str, Any]]] = {
    "steps of words": ("words_have_steps", {"flame": {"steps": 3, "randomizer": "responses"}}),
    "nothing sealed": ("few_sealed", {"flame": {"chosen": 10**6, "transport": "ideal"}}),
    "as many as are sealed": ("few_sealed", {"flame": {"chosen": 1_000}}),
    "usual users": ("few_sealed", {"flame": {"chosen": 1_000}, "data": {"name": "breast-cancer"}}),
    "simple, whose model is not known": ("few_sealed", {"run": {"system": "flame-simple"}}),
    "simple chooses nothing": ("chosen_given", {"run": {"system": "flame-simple"}}),
    "processes of boxes": ("no_idle_processes", {"security": {"processes": 2}}),
    "transcripts of boxes": ("transcripts_of_messages", {"security": {"keep_transcripts": True}}),
    "no transcripts": (
        "transcripts_of_messages",
        {"flame": {"transport": "ideal"}, "security": {"keep_transcripts": False}},
    ),
    "one silo": ("one_silo", {"data": {"name": "breast-cancer", "silos": 1}}),
}


@for_each("name", PASSED)
def test_a_rule_lets_pass_what_is_right(name: str) -> None:
    rule_name, tables = PASSED[name]
    (rule,) = [rule for rule in RULES if rule.__name__ == rule_name]
    run = {"run": {"system": "flame-double"}, "data": {"name": "breast-cancer", "users": 1_000}}
    assert rule(GivenSettings(run | tables)) is None


@for_each(
    ("more", "messages"),
    [
        ({"chosen": 1_001}, "1,001,000"),
        ({"chosen": 900, "decoys": 200}, "1,100,000"),
        ({"chosen": 10, "padded_to": 200_000}, "2,000,000"),
    ],
)
def test_ciphertexts_are_counted_by_the_keys(more: dict[str, int], messages: str) -> None:
    (rule,) = [rule for rule in RULES if rule.__name__ == "few_sealed"]
    data = {"name": "breast-cancer", "users": 1_000}
    complaint = rule(GivenSettings({"run": {"system": "flame-topk"}, "data": data, "flame": more}))
    assert complaint is not None
    assert complaint[0].startswith(f"seals {messages} messages or more a round, by 1,000 users")
    assert "seconds of processor time a round" in complaint[1]
    assert 'transport = "ideal"' in complaint[2]


def test_defaults_of_the_table_are_those_of_the_settings() -> None:
    usual = FlameSettings()
    for key in TABLE.keys:
        said = str(getattr(usual, key.name))
        if key.name not in ("chosen", "padded_to"):  # said in words
            assert said.lower() == key.default.strip('"')
    assert (usual.chosen, usual.padded_to) == (None, None)


def test_what_a_file_leaves_out() -> None:
    own = read("flame-double")
    assert own.security.aggregation == "shuffle"
    assert (own.privacy.unit, own.privacy.neighbours) == ("user", "replace-one")
    assert own.privacy.observer == "analyzer"
    assert own.table == FlameSettings(chosen=2)
    assert (own.data.users, own.data.silos) == (400, 1)  # breast-cancer has 456 training records
    assert declaration_of("flame-double").relations == ("replace-one",)
