"""Runs that train a model of one's own: by every system, audited, taken up, and given in Python."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput, PrivplanError, Unsupported
from privplan.audit.budget import audit_budget
from privplan.fl.declarations.own_code import CodeFile
from privplan.fl.observers.assumptions import CODE_OF_OWNER
from privplan.fl.running import RunInterrupted, model_from_program
from privplan.fl.running.checkpoint import Checkpoint
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.model_from_program import with_given_model
from privplan.fl.running.toml_writer import toml_bytes
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from . import own_modules
from .extras import needs
from .tables import hospitals
from .wards import Tables, command, ward, written

pytestmark = needs("torch", "cryptography", "sklearn")

NETS = inspect.getsource(own_modules)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _nets()


def _nets() -> None:
    Path("code").mkdir(exist_ok=True)
    Path("code/nets.py").write_text(NETS)


def digits(**tables: dict[str, Any]) -> Tables:
    usual = ward(
        run={"rounds": 2},
        data={"name": "digits", "users": 20},
        training={"local_epochs": 1, "model": "code/nets.py:normed"},
    )
    for name, table in tables.items():
        usual[name] = {**usual.get(name, {}), **table}
    return usual


def configured(folder: str = "out") -> dict[str, Any]:
    first = json.loads(Path(folder, "log.jsonl").read_text().splitlines()[0])
    table: dict[str, Any] = first["configuration"]["training"]
    return table


def stop(*_: object) -> None:
    raise KeyboardInterrupt


SYSTEMS: dict[str, dict[str, Any]] = {
    "uldp-avg": {},
    "uldp-sgd": {"training": {"model": "code/nets.py:SmallConvolutions"}},
    "uldp-naive": {},
    "uldp-group": {
        "uldp": {"group_records": 2, "record_rate": 0.05},
        "privacy": {"neighbours": "add-remove"},
    },
    "fedavg": {"training": {"model": "code/nets.py:SmallConvolutions"}},
    "disco": {"privacy": {"unit": "silo"}},
    "flame-simple": {"data": {"name": "breast-cancer", "users": 5, "silos": 1}},
}


@for_each("system", [*SYSTEMS])
def test_a_run_of_any_system_trains_it_and_its_audit_derives_what_it_states(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _nets()
    tables = digits(run={"system": system}, **SYSTEMS[system])
    if system == "fedavg":
        del tables["privacy"]
    if system == "uldp-sgd":
        del tables["training"]["local_epochs"]
    outcome = pp.run(tables, "out")
    assert outcome.result.rounds == outcome.result.planned
    assert np.isfinite(outcome.parameters).all()
    budget = audit_budget(Path("out"))
    if system != "fedavg":  # which promises nothing
        assert budget.ok
        assert budget.supported
        assert budget.total.epsilon.upper == pytest.approx(
            outcome.guarantee.epsilon.upper, rel=1e-5
        )
    kept = Checkpoint.read(Path("out/model.npz"))
    assert kept.model == tables["training"]["model"].removeprefix("code/")
    assert sum(part.size for part in kept.arrays().values()) == outcome.parameters.size


def test_a_table_trains_an_mlp_with_layer_norm(tmp_path: Path) -> None:
    hospitals.write(tmp_path)
    tables = hospitals.configuration(training={"model": "code/nets.py:normed"})
    outcome = pp.run(tables, "out")
    budget = audit_budget(Path("out"))
    assert budget.supported
    assert budget.total.epsilon.upper == pytest.approx(outcome.guarantee.epsilon.upper, rel=1e-5)


def test_a_run_learns() -> None:
    tables = digits(
        run={"system": "fedavg", "rounds": 8},
        data={"users": 5},
        training={"model": "code/nets.py:normed", "local_epochs": 2, "local_rate": 0.5},
    )
    del tables["privacy"]
    assert pp.run(tables, "out").metrics["accuracy"] > 0.8


def test_a_log_has_the_digest_of_the_code_and_no_folder_of_it() -> None:
    pp.run(digits(training={"model": f"{Path.cwd()}/code/nets.py:normed"}), "out")
    said = configured()
    assert said["model"] == "nets.py:normed"
    assert said["model_digest"] == CodeFile.digest_at(Path("code/nets.py"))
    for file in ("log.jsonl", "metrics.json"):
        assert str(Path.cwd()) not in Path("out", file).read_text()


def test_a_run_goes_on_with_the_same_code_and_no_other() -> None:
    with pytest.raises(RunInterrupted):
        pp.run(digits(), "out", report=stop)
    Path("code/nets.py").write_text(NETS + "\n")
    with pytest.raises(InvalidInput, match=r"\[training\] model_digest"):
        pp.resume("out")
    Path("code/nets.py").unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        pp.resume("out")
    Path("code/nets.py").write_text(NETS)
    outcome = pp.resume("out")
    assert outcome.result.rounds == 2
    assert audit_budget(Path("out")).ok


def test_a_module_that_a_program_gives_is_known_by_its_architecture() -> None:
    import torch

    def module() -> torch.nn.Module:
        torch.manual_seed(5)
        return own_modules.normed(64, 10)

    tables = digits()
    del tables["training"]["model"]
    given = module()
    with pytest.raises(RunInterrupted):
        pp.run(tables, "out", model=given, report=stop)
    assert configured()["model"] == "from-python"
    assert configured()["model_digest"].startswith("architecture-sha256:")
    with pytest.raises(InvalidInput, match=r"was given in Python"):
        pp.resume("out")
    assert command("run", "--resume", "--out", "out")[0] == 2
    with pytest.raises(InvalidInput, match=r"\[training\] model_digest"):
        pp.resume("out", model=own_modules.normed(64, 10, width=25))
    with pytest.raises(InvalidInput, match="differs from the run's own"):
        pp.resume("out", digits(data={"users": 21}, training={"model": "from-python"}), model=given)
    Path("out/config.toml").unlink()  # then it goes on with what is named again
    outcome = pp.resume("out", tables, model=module())
    assert outcome.result.rounds == 2
    assert audit_budget(Path("out")).ok
    # What was given is as it was.
    vector = torch.nn.utils.parameters_to_vector(given.parameters())
    assert torch.equal(vector, torch.nn.utils.parameters_to_vector(module().parameters()))


def test_a_function_that_a_file_defines_is_known_by_that_file() -> None:
    tables = digits()
    del tables["training"]["model"]
    pp.run(written(tables), "out", model=own_modules.normed, loss=own_loss)
    said = configured()
    assert said["model_digest"] == CodeFile.digest_at(Path(inspect.getfile(own_modules)))
    assert (said["model"], said["loss"]) == ("from-python", "from-python")
    assert said["loss_digest"] == CodeFile.digest_at(Path(__file__))


def own_loss(outputs: Any, labels: Any) -> Any:
    """Return the cross-entropy of each record, a little softened."""
    import torch

    return torch.nn.functional.cross_entropy(outputs, labels, reduction="none", label_smoothing=0.1)


def test_a_loss_stands_in_the_log_by_name_or_by_its_digest() -> None:
    Path("code/losses.py").write_text(
        "import torch\n"
        "def smooth(outputs, labels):\n"
        "    return torch.nn.functional.cross_entropy(outputs, labels, reduction='none')\n"
    )
    pp.run(digits(training={"loss": "code/losses.py:smooth"}), "own")
    pp.run(digits(training={"loss": "cross-entropy"}), "named")
    assert configured("own")["loss"] == "losses.py:smooth"
    assert configured("own")["loss_digest"] == CodeFile.digest_at(Path("code/losses.py"))
    assert configured("named")["loss"] == "cross-entropy"
    assert "loss_digest" not in configured("named")
    assert audit_budget(Path("own")).ok


def test_a_reference_may_be_given_in_python_too() -> None:
    tables = digits()
    del tables["training"]["model"]
    pp.run(tables, "out", model="code/nets.py:normed")
    assert configured()["model"] == "nets.py:normed"
    assert 'model = "code/nets.py:normed"' in Path("out/config.toml").read_text()


@for_each(
    "given, said",
    [
        ({"model": 3}, "must be a module"),
        ({"loss": "hinge"}, "cross-entropy"),
        ({"model": "mlp"}, "the configuration has model"),
    ],
)
def test_what_is_given_in_python_and_does_not_fit_is_refused(
    given: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _nets()
    with pytest.raises(InvalidInput, match=said):
        pp.run(digits(), "out", **given)
    assert not Path("out").exists()


def test_a_configuration_that_says_from_python_needs_the_object() -> None:
    with pytest.raises(InvalidInput, match="was given in Python"):
        pp.run(digits(training={"model": "from-python"}), "out")
    path = written(digits(training={"model": "from-python"}))
    assert command("run", path, "--out", "out")[0] == 3
    assert not Path("out").exists()


@for_each(
    "tables, said",
    [
        ({"training": {"model": "mlp", "loss": "cross-entropy"}}, "has its own"),
        ({"training": {"loss": "cox"}}, "is no loss"),
        ({"training": {"dropout": 0.5}}, "`dropout` is given"),
        (
            {
                "training": {"model": "code/nets.py:batch_normed"},
                "privacy": {"unit": "record"},
                "run": {"system": "disco"},
                "disco": {"divisor": 500},
            },
            "GroupNorm",
        ),
        ({"run": {"system": "delm-basic"}}, "perturbs layers"),
        ({"training": {"model": "code/nets.py:missing"}}, "no attribute"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(
    tables: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _nets()
    run = digits(**tables)
    if run["run"]["system"].startswith("delm"):
        run["privacy"] = {"epsilon": 5.0, "delta": 1e-3}
        run["delm"] = {"row_norm": 6.0}
        run["training"].pop("local_epochs")
    if run["privacy"].get("unit") == "record":
        run["training"].pop("local_epochs")
    with pytest.raises(PrivplanError) as refusal:
        pp.run(run, "out")
    error = refusal.value
    assert said in f"{error.what} {error.why} {error.next_step}"
    assert not Path("out").exists()


def test_a_table_takes_the_loss_of_its_label(tmp_path: Path) -> None:
    hospitals.write(tmp_path)
    tables = hospitals.configuration(training={"model": "code/nets.py:normed", "loss": "cox"})
    with pytest.raises(InvalidInput, match='has loss = "cox"'):
        pp.run(tables, "out")


def test_every_number_says_that_it_rests_on_the_code_of_the_owner() -> None:
    expected = pp.plan_run(digits())
    pp.run(digits(), "out")
    budget = audit_budget(Path("out"))
    for rests_on in (
        *(row.rests_on for row in expected.observers),
        *(row.rests_on for row in budget.rows),
    ):
        assert CODE_OF_OWNER in rests_on
    digest = CodeFile.digest_at(Path("code/nets.py"))
    assert any("nets.py:normed" in said and digest in said for said in budget.assumptions)
    assert sum("which no audit executes" in question for question in budget.not_stated) == 2
    pp.run(digits(training={"model": "softmax"}), "plain")
    assert not any(CODE_OF_OWNER in row.rests_on for row in audit_budget(Path("plain")).rows)


def test_a_plan_says_the_same_with_and_without_the_run() -> None:
    expected = pp.plan_run(digits())
    assert pp.run(digits(), "out").guarantee.epsilon.upper == expected.observers[0].epsilon.upper


def test_settings_of_a_log_load_no_code() -> None:
    from privplan.audit.configuration.logged_settings import settings_in
    from privplan.fl.log import read
    from privplan.fl.running.preparation import prepare

    pp.run(digits(training={"model": "code/nets.py:normed"}), "out")
    settings = settings_in(next(iter(read(Path("out")))).record)  # type: ignore[arg-type]
    # The name is there, and so is a file of that name.
    Path("nets.py").write_text("import pathlib; pathlib.Path('executed').touch()\n" + NETS)
    with pytest.raises(Unsupported, match="code of its owner"):
        prepare(settings)
    with pytest.raises(Unsupported, match="code of its owner"):
        prepare(parse(toml_bytes(digits()), "run.toml"))
    assert not Path("executed").exists()


def test_a_function_whose_file_was_edited_since_has_no_digest_of_that_file() -> None:
    Path("code/later.py").write_text(
        "from torch.nn.functional import cross_entropy\n"
        "def half(outputs, labels):\n"
        "    return 0.5 * cross_entropy(outputs, labels, reduction='none')\n"
        "def loss(outputs, labels):\n"
        "    return half(outputs, labels)\n"
    )
    spec = importlib.util.spec_from_file_location("own_later_of_a_test", "code/later.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    assert model_from_program._digest(module.loss, "loss") == CodeFile.digest_at(
        Path("code/later.py")
    )
    Path("code/later.py").write_text(Path("code/later.py").read_text().replace("0.5", "0.7"))
    said = model_from_program._digest(module.loss, "loss")
    assert said is not None
    assert said.startswith("architecture-sha256:")
    del sys.modules[spec.name]


class Factor:
    """A loss with a factor of its own."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, outputs: Any, labels: Any) -> Any:
        """Return a multiple of the cross-entropy."""
        return self.factor * own_loss(outputs, labels)


def test_a_loss_that_is_an_object_is_known_by_what_it_holds() -> None:
    digests = [model_from_program._digest(Factor(factor), "loss") for factor in (1.0, 1.0, 100.0)]
    assert digests[0] == digests[1] != digests[2]


def test_a_reference_with_quotes_and_backslashes_is_written_as_toml() -> None:
    tables = digits()
    del tables["training"]["model"]
    Path('a "net".py').write_text(NETS)
    Path("back\\slash.py").write_text(NETS)
    for name in ('a "net".py', "back\\slash.py"):
        given = with_given_model(Configuration.of(tables), f"{name}:normed", None)
        assert given.settings.training.model == f"{name}:normed"
