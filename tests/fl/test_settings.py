"""What a configuration may say, and what it is told where it says something else."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.accountant.toml_source import MAX_TOML_BYTES
from privplan.fl.declarations import toml_key
from privplan.fl.declarations.packages import built_in
from privplan.fl.declarations.registry import keys_by_table
from privplan.fl.settings import schema
from privplan.fl.settings.schema import Settings
from privplan.fl.settings.toml_file import parse, read_settings
from privplan.fl.uldp.settings import UldpSettings

from ..cases import for_each

BASE = {
    "run": 'system = "uldp-avg"\nrounds = 3',
    "data": 'name = "breast-cancer"',
    "privacy": "epsilon = 8.0",
}


def made(**tables: str) -> bytes:
    """Return a configuration: `BASE`, with the tables that are given in place of its own."""
    found = {**BASE, **tables}
    return "".join(f"[{name}]\n{text}\n" for name, text in found.items() if text).encode()


def read(**tables: str) -> Settings:
    return parse(made(**tables), "run.toml")


def refused(content: bytes, kind: type[PrivplanError] = InvalidInput) -> PrivplanError:
    with pytest.raises(kind) as caught:
        parse(content, "run.toml")
    error = caught.value
    assert error.what.startswith("run.toml")
    assert error.what.endswith(".")
    assert error.next_step
    return error


def test_what_is_left_out_is_filled_in() -> None:
    found = read()
    assert found.run == schema.RunSettings(system="uldp-avg", rounds=3)
    assert found.data.users > 1
    assert found.privacy.unit == "user"
    assert found.privacy.delta == 1e-5
    assert found.training.clip > 0.0
    assert found.training.model in toml_key.MODELS
    assert read(run='system = "uldp-avg"').run.rounds >= 1


def test_every_key_reaches_the_settings() -> None:
    kinds = {}
    for system in built_in().values():
        kinds |= schema.tables_of(system)
    for name, table in keys_by_table().items():
        known = {item.name for item in fields(kinds[name])}
        derived = {
            "privacy": {"group"},
            "data": {"silo_files", "handed_over"},
            "evaluation": {"test_file"},
            "training": {"model_digest", "loss_digest", "executable"},
        }.get(name, set())
        assert {key.name for key in table} == known - derived, name


def test_every_given_value_is_kept() -> None:
    found = read(
        run='system = "uldp-avg"\nrounds = 4\nseed = 0\nevaluate_every = 2\ntrials = 7',
        data='name = "breast-cancer"\nusers = 9\nsilos = 2\nallocation = "uniform"\nseed = 5',
        privacy="epsilon = 3\nnoise_multiplier = 2\ndelta = 1e-6\nsampling_rate = 0.5",
        training='weighting = "records"\nclip = 1\nlocal_rate = 0.5\nlocal_epochs = 2\nbatch = 3\n'
        'global_rate = 1.5\nmodel = "mlp"\ndropout = 0.25\nseed = 8',
        security='aggregation = "plain"\nkey_bits = 2048',
        log='fsync = "never"\nsign_key = "key.pem"',
    )
    assert found.run == schema.RunSettings(
        system="uldp-avg", rounds=4, seed=0, evaluate_every=2, trials=7
    )
    assert (found.data.users, found.data.silos) == (9, 2)
    assert (found.data.allocation, found.data.seed) == ("uniform", 5)
    assert found.privacy == schema.PrivacySettings(
        epsilon=3.0, noise_multiplier=2.0, delta=1e-6, sampling_rate=0.5
    )
    assert found.training == schema.TrainingSettings(
        weighting="records",
        clip=1.0,
        local_rate=0.5,
        local_epochs=2,
        batch=3,
        global_rate=1.5,
        model="mlp",
        dropout=0.25,
        seed=8,
    )
    assert found.security.key_bits == 2048
    assert found.log == schema.LogSettings(fsync="never", sign_key=Path("key.pem"))


def test_protocols_have_their_own_keys() -> None:
    masked = read(security='aggregation = "masked"\ndropouts = 1\nkeep_transcripts = true')
    assert masked.security == schema.SecuritySettings(
        aggregation="masked", dropouts=1, keep_transcripts=True
    )
    hidden = read(
        privacy="epsilon = 8\nsampling_rate = 0.3",
        security='aggregation = "private-weighting"\nkey_bits = 4096\ncount_limit = 60\n'
        "records_per_count = 3\nslots = 10\nprocesses = 2",
    )
    assert hidden.security == schema.SecuritySettings(
        aggregation="private-weighting",
        key_bits=4096,
        count_limit=60,
        records_per_count=3,
        slots=10,
        processes=2,
    )
    assert hidden.training.weighting == "records"  # the only weights that there are to hide
    said = hidden.to_json()["security"]
    assert "processes" not in said
    assert "keep_transcripts" not in said


def test_numbers_have_their_type_and_groups_are_of_the_promise() -> None:
    found = read(privacy="epsilon = 8", training="clip = 1")
    assert isinstance(found.privacy.epsilon, float)
    assert isinstance(found.training.clip, float)
    assert "rounds" in refused(made(run='system = "uldp-avg"\nxyzzy = 3')).next_step
    found = read(run='system = "fedavg"', privacy="")
    assert found.privacy.unit is None
    assert found.privacy.epsilon is None
    assert found.privacy.noise_multiplier is None
    found = read(run='system = "uldp-group"', uldp="group_records = 8")
    assert found.privacy.group == 8
    assert found.of(UldpSettings).group_records == 8
    assert read().privacy.group == 1


def test_the_log_gets_no_path_and_no_float() -> None:
    heart = 'name = "heart-disease"\npath = "/home/ada lovelace/heart"'
    found = read(data=heart, log='sign_key = "/home/ada/key.pem"')
    assert found.data.path == Path("/home/ada lovelace/heart")
    said = found.to_json()
    text = json.dumps(said, allow_nan=False)
    assert "ada" not in text
    assert "fsync" not in text
    assert said["privacy"]["epsilon"] == "8.0"
    assert not [
        value for table in said.values() for value in table.values() if type(value) is float
    ]


@for_each(
    ("tables", "meant"),
    [
        ({"run": 'system = "uldp-avg"\nround = 3'}, "`rounds`"),
        ({"run": 'sytem = "uldp-avg"'}, "`system`"),
        ({"privacy": "epsilom = 8.0"}, "`epsilon`"),
        ({"privacy": "noise_multiplyer = 8.0"}, "`noise_multiplier`"),
        ({"training": "learning_rate = 0.1"}, "_rate`"),
        ({"data": 'name = "breast-cancer"\nusrs = 50'}, "`users`"),
        ({"privcy": "epsilon = 8.0", "privacy": ""}, "`privacy`"),
        ({"trainng": "clip = 1"}, "`training`"),
        ({"uldp": "as_publishd = true"}, "`as_published`"),
    ],
)
def test_a_misspelt_name_suggests_the_right_one(tables: dict[str, str], meant: str) -> None:
    error = refused(made(**tables))
    assert "unknown" in error.what
    assert "Did you mean" in error.next_step
    assert meant in error.next_step


@for_each(
    ("tables", "step"),
    [
        ({"run": 'system = "uldp-av"'}, 'Did you mean system = "uldp-avg"?'),
        ({"run": 'system = "ULDP-SGD"'}, 'Did you mean system = "uldp-sgd"?'),
        ({"run": 'system = "FedAvg"', "privacy": ""}, 'Did you mean system = "fedavg"?'),
        ({"run": 'system = "flame-simpel"'}, 'Did you mean system = "flame-simple"?'),
        ({"data": 'name = "breast_cancer"'}, 'Did you mean name = "breast-cancer"?'),
        ({"data": 'name = "breast-cancer"\nallocation = "zip"'}, 'allocation = "zipf"'),
        ({"privacy": 'epsilon = 8\nneighbours = "replace"'}, 'neighbours = "replace-one"'),
        ({"training": 'model = "logistics"'}, 'model = "logistic"'),
        ({"log": 'fsync = "allways"'}, 'fsync = "always"'),
    ],
)
def test_a_misspelt_word_suggests_the_right_one(tables: dict[str, str], step: str) -> None:
    assert step in refused(made(**tables)).next_step


OUT_OF_RANGE = {
    "run": (
        'rounds = 0; rounds = -1; rounds = 1.5; rounds = true; rounds = "50"; seed = -1; '
        'seed = 9223372036854775808; evaluate_every = -1; trials = 0; device = "tpu"'
    ),
    "data": 'users = 0; silos = 2.0; path = ""; path = 3; path = "a\\u0000b"',
    "privacy": (
        "delta = 0.0; delta = 1; delta = -1e-5; delta = nan; epsilon = 0; epsilon = inf; "
        'epsilon = true; epsilon = "8"; epsilon = [8]; noise_multiplier = -5.0; '
        "noise_multiplier = 1979-05-27; sampling_rate = 0; sampling_rate = 1.01; "
        'neighbours = "remove"; unit = "person"'
    ),
    "training": (
        "clip = 0; local_rate = inf; local_epochs = 0; batch = 0.5; dropout = 1.0; "
        'weighting = "equal"'
    ),
    "security": (
        "key_bits = 512; key_bits = 99999; key_bits = 3000; key_bits = true; dropouts = -1; "
        "count_limit = 1; count_limit = 1001; slots = 1; records_per_count = 0; processes = 0; "
        'processes = 65; keep_transcripts = "yes"'
    ),
    "uldp": 'as_published = "yes"; group_records = 0; record_rate = 0.0',
    "log": "fsync = true; save_models = 1",
}
"""By table: lines that nobody can mean."""


@for_each(
    ("table", "line"),
    [(table, line) for table, lines in OUT_OF_RANGE.items() for line in lines.split("; ")],
)
def test_what_is_out_of_range_is_refused_by_name(table: str, line: str) -> None:
    key = line.split(" ")[0]
    usual = "" if f"{key} =" in BASE.get(table, "") else BASE.get(table, "") + "\n"
    if table == "run":
        usual = 'system = "uldp-avg"\n'
    error = refused(made(**{table: usual + line}))
    assert f"`{key}`" in error.what
    assert f"[{table}]" in error.what


NAIVE, SGD = ('system = "uldp-naive"', 'system = "uldp-sgd"')
HIDDEN, SAMPLED = 'aggregation = "private-weighting"\n', "epsilon = 8\nsampling_rate = 0.25"
PUBLISHED = {"privacy": "noise_multiplier = 5.0", "uldp": "as_published = true"}
MOMENTS = {
    "data": 'name = "heart-disease"\nnormalisation = "private"',
    "privacy": "epsilon = 8\nnormalisation_noise = 5.0",
}
CONTRADICTIONS: list[tuple[str, dict[str, str]]] = [
    ("lacks `epsilon` or `noise_multiplier`", {"privacy": ""}),
    ("lacks `epsilon` or `noise_multiplier`", {"privacy": "delta = 1e-5"}),
    ("fedavg promises nothing", {"run": 'system = "fedavg"'}),
    ("lacks `system` in [run]", {"run": "rounds = 3"}),
    ("lacks `name` in [data]", {"data": "users = 50"}),
    ("lacks `system` in [run]", {"run": "", "data": "", "privacy": ""}),
    ("needs `unit` in [privacy] to be user", {"privacy": 'epsilon = 8\nunit = "record"'}),
    ("lacks `group_records` in [uldp]", {"run": 'system = "uldp-group"'}),
    ("uldp-avg has no use for it", {"uldp": "group_records = 8"}),
    ("uldp-avg is sound as it is published", {"uldp": "as_published = true"}),
    ('aggregation = "plain" has no use for', {"security": "dropouts = 1"}),
    ('aggregation = "plain" has no use for', {"security": "slots = 10"}),
    (
        'aggregation = "masked" has no use for',
        {"security": 'aggregation = "masked"\ncount_limit = 40'},
    ),
    ('aggregation = "private-weighting" has no use for', {"security": HIDDEN + "dropouts = 1"}),
    ("uldp-naive has no weights to hide", {"run": NAIVE, "security": HIDDEN}),
    (
        'weighting = "uniform" in [training]',
        {"security": HIDDEN, "training": 'weighting = "uniform"'},
    ),
    ('normalisation = "private" in [data]', {**MOMENTS, "security": HIDDEN}),
    ("slots = 10 in [security] for sampling_rate = 1.0", {"security": HIDDEN + "slots = 10"}),
    (
        "gives slots = 10 in [security] for sampling_rate = 0.25",
        {"privacy": SAMPLED, "security": HIDDEN + "slots = 10"},
    ),
    (
        "gives `slots` in [security] with as_published",
        {
            **PUBLISHED,
            "privacy": "noise_multiplier = 5.0\nsampling_rate = 0.3",
            "security": HIDDEN + "slots = 10",
        },
    ),
    (
        "gives `records_per_count` in [security] with as_published",
        {**PUBLISHED, "security": HIDDEN + "records_per_count = 2"},
    ),
    (
        "gives `processes` in [security] with as_published",
        {**PUBLISHED, "security": HIDDEN + "processes = 2"},
    ),
    (
        "gives `sampling_rate` in [privacy], and uldp-naive has no use for it",
        {"run": NAIVE, "privacy": SAMPLED},
    ),
    (
        "gives `weighting` in [training], and uldp-naive has no use for it",
        {"run": NAIVE, "training": 'weighting = "records"'},
    ),
    (
        "gives `local_epochs` in [training], and uldp-sgd has no use for it",
        {"run": SGD, "training": "local_epochs = 5"},
    ),
    (
        "gives `clip` in [training], and fedavg has no use for it",
        {"run": 'system = "fedavg"', "privacy": "", "training": "clip = 1"},
    ),
    (
        "gives `epsilon` in [privacy] with as_published",
        {"run": NAIVE, "uldp": "as_published = true"},
    ),
    ("asks for device", {"run": 'system = "uldp-avg"\ndevice = "cuda"'}),
    (
        "gives both `record_rate` in [uldp] and `batch` in [training]",
        {
            "run": 'system = "uldp-group"',
            "uldp": "group_records = 8\nrecord_rate = 0.1",
            "training": "batch = 4",
        },
    ),
]


@for_each(("what", "tables"), CONTRADICTIONS)
def test_contradictions_are_refused(what: str, tables: dict[str, str]) -> None:
    assert what in refused(made(**tables)).what


@for_each(
    ("content", "what"),
    [
        (b"[run", "is not TOML"),
        (b'[run]\nsystem = "uldp-avg"\nsystem = "fedavg"\n', "is not TOML"),
        *((b"\xff\xfe", "is not UTF-8"), (b"#" * (MAX_TOML_BYTES + 1), "is larger than 1 MiB")),
        *((b"a = " + b"[" * 100_000, "is not TOML"), (b"a = " + b"9" * 5_000, "is not TOML")),
        (b"run = 3", "needs `run` to be a table"),
        (b"[[run]]\nrounds = 3", "needs `run` to be a table"),
        *((b"rounds = 3", "unknown key outside of a table"), (b"", "lacks `system`")),
    ],
)
def test_what_is_no_configuration_is_refused(content: bytes, what: str) -> None:
    assert what in refused(content).what


def test_files_are_read_from_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbf" + made())
    assert read_settings(path) == read()
    for wrong in (tmp_path, tmp_path / "missing.toml", tmp_path / "a\0b"):
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_settings(wrong)


def test_the_models_and_the_data_sets_are_those_that_exist() -> None:
    pytest.importorskip("torch")
    from privplan.fl.datasets import NAMES
    from privplan.fl.models import MODELS
    from privplan.fl.models.losses import NAMED_LOSSES
    from privplan.fl.models.registry import NAMES_OF_LOSSES_OF_NUMBERS

    assert set(toml_key.MODELS) == set(MODELS)
    assert tuple(toml_key.LOSSES) == tuple(NAMED_LOSSES)
    assert toml_key.LOSSES_OF_NUMBERS == NAMES_OF_LOSSES_OF_NUMBERS
    assert set(toml_key.DATASETS) - {toml_key.RATINGS, toml_key.TABLE} == set(NAMES)
