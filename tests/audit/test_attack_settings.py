"""The settings and logs that an attack accepts, and those that it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Randomness, RunOpen
from privplan.audit.attack import attack
from privplan.audit.configuration.logged_settings import settings_in
from privplan.fl.log import BadLine, LogWriter
from privplan.fl.log.hash_chain import LOG
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from . import ledgers, logs
from .attacked import Stand, configuration, configured, content, files_of, opened_in, run_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of 20 rounds with noise 5, as its own code would have left its log."""
    return run_in(tmp_path / "run")


# The settings of a run, out of its log


@pytest.mark.parametrize(
    ("system", "more"),
    [
        ("uldp-avg", ""),
        ("uldp-avg", "epsilon = 2.5\nsampling_rate = 0.3\n[run_]"),
        ("uldp-sgd", "[training]\nweighting = 'records'"),
        ("uldp-avg", "[security]\naggregation = 'private-weighting'\nkey_bits = 2048"),
        ("uldp-avg", "[security]\naggregation = 'masked'\ndropouts = 1"),
        ("uldp-naive", "[uldp]\nas_published = true"),
        ("uldp-group", "[uldp]\ngroup_records = 8\nrecord_rate = 0.1"),
        ("uldp-avg", "normalisation_noise = 5.0\n[training]\nclip = 0.30000000000000004"),
    ],
)
def test_settings_come_back_from_a_log_as_they_were(folder: Path, system: str, more: str) -> None:
    text = content(system=system).decode() + more.replace("[run_]", "")
    private = "normalisation_noise" in more
    if private:
        text = text.replace("silos = 5", 'silos = 5\nnormalisation = "private"')
    own = parse(text.encode(), "run.toml")
    opened = opened_in(folder)
    group = own.privacy.group
    opened = replace(
        opened,
        system=system,
        claim=replace(opened.claim, group=group, epsilon=own.privacy.epsilon),
        aggregation=own.security.aggregation,
        as_published=own.as_published,
        plan=replace(opened.plan, rounds=20 + private),
        configuration=json.loads(json.dumps(own.to_json())),
    )
    assert settings_in(opened) == own


def test_fedavg_comes_back_too(folder: Path) -> None:
    text = content(system="fedavg").decode().split("[privacy]")[0]
    own = parse(text.encode(), "run.toml")
    opened = replace(
        opened_in(folder), system="fedavg", configuration=json.loads(json.dumps(own.to_json()))
    )
    assert settings_in(opened) == own


REFUSED: tuple[tuple[str, ledgers.Change], ...] = (
    ("does not say how its run was configured", ledgers.opening(configuration={})),
    ("unknown table 'flame'", configured(flame={"x": 1})),
    ("unknown key 'path' in [data]", configured(data={"path": "/etc/passwd"})),
    ("unknown key 'sign_key' in [log]", configured(log={"sign_key": "/root/key.pem"})),
    ("[run] of the log's configuration is no table", ledgers.opening(configuration={"run": 1})),
    ("lacks `users` in [data]", configured(data={"users": None})),
    ("the log's configuration: `[run] rounds`", configured(run={"rounds": True})),
    ("the log's configuration: `[run] rounds`", configured(run={"rounds": "20"})),
    ("rounds` must be", configured(run={"rounds": 0})),
    ("rounds` must be", configured(run={"rounds": 10**30})),
    ("the log's configuration: `[training] clip`", configured(training={"clip": 0.1})),
    ("the log's configuration: `[training] clip`", configured(training={"clip": "0.10"})),
    ("clip` must be", configured(training={"clip": "nan"})),
    ("clip` must be", configured(training={"clip": "inf"})),
    ("`model` must be", configured(training={"model": "../../model"})),
    ("`name` must be", configured(data={"name": "/etc"})),
    ("the log's configuration: `[privacy] unit`", configured(privacy={"unit": "person"})),
    ("says unit record, line 1 states user", configured(privacy={"unit": "record"})),
    (
        "says neighbours replace-one, line 1 states add-remove",
        configured(privacy={"neighbours": "replace-one"}),
    ),
    ("says delta 1e-06, line 1 states 1e-05", configured(privacy={"delta": "1e-06"})),
    ("says group_records 8, line 1 states 1", configured(privacy={"group": 8})),
    ("says group_records 8, line 1 states 1", configured(uldp={"group_records": 8})),
    (
        "says aggregation masked, line 1 states plain",
        configured(security={"aggregation": "masked"}),
    ),
    ("says as_published true, line 1 states false", configured(uldp={"as_published": True})),
    ("says rounds 21, line 1 states 20", configured(run={"rounds": 21})),
    ("says rounds 20, line 1 states 19", ledgers.opening(plan=ledgers.part(rounds=19))),
    ("says users 51, line 1 states 50", configured(data={"users": 51})),
    ("says silos 4, line 1 states 5", configured(data={"silos": 4})),
    ("says randomness seeded, line 1 states operating-system", configured(run={"seed": 7})),
    ("says system uldp-sgd, line 1 states uldp-avg", configured(run={"system": "uldp-sgd"})),
    ("says epsilon 0.5 at most, line 1 states", configured(privacy={"epsilon": "0.5"})),
    ("says unit user, line 1 states record", ledgers.opening(claim=ledgers.part(unit="record"))),
    (
        "says neighbours add-remove, line 1 states replace-one",
        ledgers.opening(claim=ledgers.part(neighbours="replace-one")),
    ),
    ("says as_published false, line 1 states true", ledgers.opening(as_published=True)),
    (
        "says randomness operating-system, line 1 states seeded",
        ledgers.opening(randomness=Randomness("seeded")),
    ),
)


@for_each(("reason", "change"), REFUSED)
def test_settings_that_do_not_belong_to_the_promise_are_refused(
    tmp_path: Path, reason: str, change: ledgers.Change
) -> None:
    folder, stand = run_in(tmp_path / "run", change=change), Stand()
    before = files_of(folder)
    with pytest.raises(InvalidInput) as caught:
        attack(folder, tier_functions=stand.tools())
    assert reason in caught.value.what
    assert stand.asked == []
    assert files_of(folder) == before


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)
KEYS = [(table, key) for table, own in configuration().items() for key in own]


@settings(max_examples=50)
@given(st.sampled_from(KEYS), ANY)
def test_any_value_of_any_key_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, key: tuple[str, str], value: object
) -> None:
    opened = opened_of(tmp_path_factory)
    own = {name: dict(table) for name, table in opened.configuration.items()}  # type: ignore[call-overload]
    own[key[0]][key[1]] = value
    try:
        found = settings_in(replace(opened, configuration=own))
    except InvalidInput:
        return
    assert json.loads(json.dumps(found.to_json())) == own


_OPENED: list[RunOpen] = []


def opened_of(factory: pytest.TempPathFactory) -> RunOpen:
    """Return one opening, made once."""
    if not _OPENED:
        _OPENED.append(opened_in(run_in(factory.mktemp("opened") / "run")))
    return _OPENED[0]


def test_the_settings_of_a_good_log_are_taken(folder: Path) -> None:
    assert settings_in(opened_in(folder)) == parse(content(), "run.toml")


def test_a_file_that_says_something_else_than_the_log_is_refused(folder: Path) -> None:
    (folder / "config.toml").write_bytes(content())
    assert attack(folder, tier_functions=Stand().tools()).measurements
    (folder / "config.toml").write_bytes(content().replace(b"5.0", b"9.0"))
    with pytest.raises(InvalidInput, match=r"changed: \[privacy\] noise_multiplier"):
        attack(folder, tier_functions=Stand().tools())
    (folder / "config.toml").write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match=r"config\.toml is not TOML"):
        attack(folder, tier_functions=Stand().tools())


# Logs that cannot be attacked


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"holds no log\.jsonl"):
        attack(tmp_path, tier_functions=Stand().tools())
    with pytest.raises(InvalidInput, match="There is no folder"):
        attack(tmp_path / "nowhere", tier_functions=Stand().tools())


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("line", [1, 2, 41])
def test_a_broken_chain_is_refused_with_its_line(folder: Path, append: bool, line: int) -> None:
    lines = logs.lines_of(folder)
    lines[line - 1] = lines[line - 1].replace("0", "1", 1)
    logs.write_lines(folder, lines)
    stand = Stand()
    with pytest.raises(BadLine) as caught:
        attack(folder, append=append, tier_functions=stand.tools())
    assert caught.value.number == line
    assert stand.asked == []


def test_a_run_that_is_being_written_is_refused_before_any_work(tmp_path: Path) -> None:
    stand = Stand()
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(opened_in(run_in(tmp_path / "other")))
        with pytest.raises(InvalidInput, match="being written by another process"):
            attack(tmp_path / "run", tier_functions=stand.tools())
    assert stand.asked == []


def test_an_empty_log_is_refused(folder: Path) -> None:
    (folder / LOG).write_text("")
    for append in (True, False):
        with pytest.raises(InvalidInput, match=r"no `run\.open`|opens no run"):
            attack(folder, append=append, tier_functions=Stand().tools())
