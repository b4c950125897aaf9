"""The configuration in the first line: all of it stands there, and it is that of its file."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privplan.accountant.errors import InvalidInput
from privplan.audit.attack import attack
from privplan.audit.budget import audit_budget
from privplan.audit.report import read as read_page
from privplan.cli.main import app
from privplan.fl.log import LogWriter
from privplan.fl.running import Configuration, ready_new_run
from privplan.fl.running.preparation import prepare
from privplan.fl.running.session import execute
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .forged import Edit, Records, earlier
from .logs import rechained

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
    reason="runs need the extra `fl`",
)

WHOLE = """
[run]
system = "uldp-avg"
rounds = 3
{run}
[data]
name = "breast-cancer"
users = 40
silos = 3
{data}
[privacy]
noise_multiplier = 5.0
{privacy}
[training]
weighting = "uniform"
{more}
"""


def configuration(run: str = "", data: str = "", privacy: str = "", more: str = "") -> str:
    return WHOLE.format(run=run, data=data, privacy=privacy, more=more)


CONFIGURATIONS = {
    "keys left out": configuration(),
    "seeded": configuration(run="seed = 5\ntrials = 12"),
    "explicit": configuration(
        run='seed = 5\ntrials = 12\ndevice = "cpu"\nevaluate_every = 1',
        data='normalisation = "public"\nallocation = "zipf"\nseed = 0',
        privacy='unit = "user"\nobserver = "model"\nobservers = ["model", "server", "silo"]\n'
        'sampling_rate = 1.0\nneighbours = "add-remove"\naccept_delta = false\n',
        more='seed = 0\n[evaluation]\ntest = "public"\n[security]\naggregation = "masked"\n'
        'colluders = 1\n[uldp]\nas_published = false\n[log]\nfsync = "records"\nsave_models = true',
    ),
    "moments": configuration(data='normalisation = "private"', privacy="normalisation_noise = 5.0"),
    "never": configuration(more='[log]\nfsync = "never"'),
}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of this version, as `privplan run` leaves them, and one begun from Python."""
    place = tmp_path_factory.mktemp("fresh")
    for name, text in CONFIGURATIONS.items():
        (place / f"{name}.toml").write_text(text)
        ready = ready_new_run(Configuration.read(place / f"{name}.toml"), place / name)
        with ready.writer:
            execute(ready.prepared, place / name, ready.writer)
    settings = parse(CONFIGURATIONS["seeded"].encode(), "run.toml")
    with LogWriter.create(place / "python", fsync="never") as writer:
        execute(prepare(settings), place / "python", writer)
    return place


def popped(table: str, *keys: str) -> Edit:
    """Take keys out of the first line's configuration, or a whole table."""

    def edit(records: Records) -> None:
        own = records[0]["configuration"]
        for key in keys:
            del own[table][key]
        if not keys:
            del own[table]

    return edit


def unseeded(records: Records) -> None:
    popped("run", "seed", "trials")(records)
    records[0]["randomness"]["source"] = "operating-system"
    records[0]["tuning"] = {"event": None, "public_only": True, "trials": 1}


def emptied(records: Records) -> None:
    records[0]["configuration"] = {}


def older(records: Records) -> None:
    """Take out all that earlier versions did not write: it looks like one of theirs."""
    popped("privacy", "observer", "observers")(records)
    popped("security", "colluders")(records)
    popped("evaluation")(records)
    unsealed()(records)


def unsealed(*names: str) -> Edit:
    """Take out what is said to be sealed, and commitments to it: to all, or to some."""

    def edit(records: Records) -> None:
        del records[0]["sealed"]
        for one in records:
            if one["type"] == "round.release":
                kept = [name for name in one["sealed"] if names and name not in names]
                one["sealed"] = {name: one["sealed"][name] for name in kept}

    return edit


def waited(records: Records) -> None:
    records[0]["fsync"] = "records"


MISMATCH, FILE = "configuration-mismatch", "configuration-file-mismatch"

FORGED: dict[str, tuple[str, Edit, bool, str, str]] = {
    "seed and trials": ("seeded", unseeded, True, MISMATCH, "every run says [run] seed something"),
    "seed and trials, file too": ("seeded", unseeded, False, MISMATCH, "[run] seed something"),
    "the seed in the file": ("seeded", unseeded, True, FILE, "[run] seed 5, line 1 states nothing"),
    "of a run from Python": ("python", unseeded, False, MISMATCH, "[run] seed something"),
    "trials": ("explicit", popped("run", "trials"), True, FILE, "[run] trials 12"),
    "moments": (
        "moments",
        lambda records: (
            popped("data", "normalisation")(records),
            popped("privacy", "normalisation_noise")(records),
        ),
        True,
        FILE,
        "[data] normalisation private, line 1 states nothing of it",
    ),
    "test data": ("explicit", popped("evaluation"), True, FILE, "[evaluation] test public"),
    "colluders": ("explicit", popped("security", "colluders"), True, FILE, "colluders 1"),
    "a table": ("keys left out", popped("uldp"), True, MISMATCH, "[uldp] as_published something"),
    "all of it": ("keys left out", emptied, True, FILE, "the configuration all of it, line 1"),
    "all of it, file too": ("keys left out", emptied, False, MISMATCH, "says the configuration"),
    "all sealed items": ("keys left out", unsealed(), True, MISMATCH, "sealed something"),
    "items of the noise": (
        "keys left out",
        unsealed("recomputed", "residuals"),
        False,
        MISMATCH,
        "sealed something, line 1 states nothing of it",
    ),
    "as an earlier version": ("explicit", older, True, FILE, "observer model, line 1 states"),
    "fsync": ("never", waited, True, FILE, "[log] fsync never, line 1 states records"),
}


@for_each("name", FORGED)
def test_what_is_taken_out_of_the_first_line_is_an_error_for_every_command(
    fresh: Path, tmp_path: Path, name: str
) -> None:
    run, edit, file, hazard, said = FORGED[name]
    folder = Path(shutil.copytree(fresh / run, tmp_path / "run"))
    if not file:
        (folder / "config.toml").unlink(missing_ok=True)
    rechained(folder, edit)
    found = {
        hazard.id: hazard for hazard in audit_budget(folder).hazards if hazard.severity == "error"
    }
    assert said.lower() in found[hazard].says.lower()
    assert hazard in read_page(folder).budget.errors
    outcome = CliRunner().invoke(app, ["audit", "log", str(folder)])
    assert outcome.exit_code == 1
    assert f"FAILED     {hazard}: " in outcome.stdout
    with pytest.raises(InvalidInput):
        attack(folder, append=False)


@for_each("name", [*CONFIGURATIONS, "python"])
def test_a_whole_first_line_is_no_error(fresh: Path, name: str) -> None:
    report = audit_budget(fresh / name, sealed=True)
    assert not [one for one in report.errors if one.startswith("configuration")]
    assert not [one for one in report.not_stated if "[" in one]
    assert CliRunner().invoke(app, ["audit", "log", str(fresh / name)]).exit_code == 0


def test_a_key_that_an_earlier_version_did_not_know_is_read_in_no_file_of_it(
    tmp_path: Path,
) -> None:
    """Nobody can have begun that run with this file."""
    folder = earlier(tmp_path, "avg-uniform-plain")
    place = folder / "config.toml"
    place.write_text(place.read_text() + '\n[evaluation]\ntest = "none"\n')
    (said,) = (hazard.says for hazard in audit_budget(folder).hazards if hazard.id == FILE)
    assert said == "Config.toml says [evaluation] test none, line 1 states nothing of it."
