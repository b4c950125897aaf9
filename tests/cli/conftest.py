"""A clean working directory and environment for each test, and a library that answers at once."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from privplan.accountant import events as ev
from privplan.accountant.guarantee import Bounds, Guarantee, Step
from privplan.cli.main import app


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Treat every warning in these tests as an error."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("error"))


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # tables and help are as wide as the terminal
    for name in [name for name in os.environ if name.startswith("PRIVPLAN_")]:
        monkeypatch.delenv(name)


class Outcome:
    """What a command left behind."""

    def __init__(self, result: Any) -> None:
        self.code: int = result.exit_code
        self.out: str = result.stdout
        self.err: str = result.stderr
        self.exception = result.exception

    @property
    def json(self) -> Any:
        """The one JSON object on standard output."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


Run = Callable[..., Outcome]
Refused = Callable[..., str]


@pytest.fixture
def run() -> Run:
    """Run `privplan` with the given words; `stdin` is what stands on standard input."""

    def call(*words: str, stdin: str | bytes = "") -> Outcome:
        result = CliRunner().invoke(app, list(words), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result)

    return call


ANSWERS: dict[tuple[str, ...], Outcome] = {}


@pytest.fixture
def asked(run: Run) -> Run:
    """Run a command that reads no file, once for all tests that give it the same words."""

    def call(*words: str) -> Outcome:
        if words not in ANSWERS:
            ANSWERS[words] = run(*words)
        return ANSWERS[words]

    return call


@pytest.fixture
def refused(run: Run) -> Refused:
    """Run `privplan`, expect exit code `code` and three lines, and return the three lines."""

    def call(*words: str, code: int = 2, stdin: str | bytes = "") -> str:
        outcome = run(*words, stdin=stdin)
        assert outcome.code == code, outcome.err
        assert outcome.out == ""
        lines = outcome.err.splitlines()
        assert [line.split(":")[0].strip() for line in lines] == ["error", "why", "next"]
        assert all(line.split(":", 1)[1].strip() for line in lines), outcome.err
        assert "Traceback" not in outcome.err
        as_json = run(*words, "--json", stdin=stdin)
        assert as_json.code == code
        envelope = as_json.json
        assert envelope["schema"] == "privplan/1"
        assert envelope["ok"] is False
        assert set(envelope["error"]) == {"what", "why", "next"}
        assert all(envelope["error"].values())
        return outcome.err

    return call


class FakeLibrary:
    """Stands in for `account` and `calibrate`; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: Guarantee | Exception | None = None
        self.noise = 0.786012
        self.unsupported_rdp = False

    def account(
        self,
        event: ev.Event,
        *,
        delta: float | None = None,
        epsilon: float | None = None,
        neighbours: str = "add-remove",
        engine: str | None = None,
    ) -> Guarantee:
        """Answer whatever was prepared, else epsilon in [1.82811, 1.82824]."""
        self.asked.append(
            {
                "event": event,
                "delta": delta,
                "epsilon": epsilon,
                "neighbours": neighbours,
                "engine": engine,
            }
        )
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        bounds = Bounds(1.82811, 1.82824)
        return Guarantee(
            epsilon=bounds if epsilon is None else Bounds.exactly(epsilon),
            delta=Bounds(1e-6, 2.00001e-6) if delta is None else Bounds.exactly(delta),
            neighbours=neighbours,  # type: ignore[arg-type]
            engine=engine or "pld",
            derivation=(
                Step("mechanism", "Gaussian noise.", "A paper", ("noise above 0",)),
                Step("composition", "All rounds.", "Another paper"),
            ),
            warnings=("mind the gap",),
        )

    def calibrate(
        self,
        make_event: Callable[[float], ev.Event],
        *,
        epsilon: float,
        delta: float,
        neighbours: str = "add-remove",
        unknown: str = "noise",
        engine: str | None = None,
    ) -> Any:
        """Answer the prepared noise, and 0.855111 for RDP."""
        from types import SimpleNamespace

        from privplan.accountant.errors import Unsupported

        assert unknown == "noise"
        if engine == "rdp" and self.unsupported_rdp:
            raise Unsupported("No RDP here.")
        if isinstance(self.answer, Exception):
            raise self.answer
        noise = 0.855111 if engine == "rdp" else self.noise
        return SimpleNamespace(
            value=noise,
            guarantee=Guarantee(
                epsilon=Bounds(epsilon * 0.9999, epsilon * 0.99999),
                delta=Bounds.exactly(delta),
                neighbours=neighbours,  # type: ignore[arg-type]
                engine=engine or "pld",
            ),
            gap=epsilon * 1e-5,
            event=make_event(noise),
        )


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """Put a library that answers at once in the place of the real one."""
    # What takes more of the real one than the two functions is loaded with it.
    importlib.import_module("privplan.accountant.risk.attack_power")
    fake = FakeLibrary()
    for name in ("account", "calibrate"):
        module = ModuleType(f"privplan.accountant.{name}")
        setattr(module, name, getattr(fake, name))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    # The sentence about attacks stands on the real one: none here.
    words = ModuleType("privplan.accountant.risk.sentence")
    words.__dict__.update(USUAL_FPR=0.01, attack_sentence=str, quick_tpr=lambda *_: None)
    monkeypatch.setitem(sys.modules, words.__name__, words)
    return fake


@pytest.fixture
def event_file(tmp_path: Path) -> str:
    """Write Gaussian(1) into a file."""
    (tmp_path / "event.json").write_text('{"type": "gaussian", "noise_multiplier": 1}')
    return "event.json"


@pytest.fixture
def fl() -> None:
    """Skip without the packages of the extra."""
    for name in ("torch", "sklearn", "cryptography"):
        pytest.importorskip(name)


@pytest.fixture
def cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run, and stop at the record with number `at` as Ctrl-C (or a full disk) would."""

    def call(at: int, *words: str, error: BaseException | None = None) -> Any:
        from privplan.fl.log import LogWriter

        count = 0
        append = LogWriter.append

        def failing(self: LogWriter, record: Any) -> int:
            nonlocal count
            count += 1
            if count == at:
                raise KeyboardInterrupt if error is None else error
            return append(self, record)

        with monkeypatch.context() as patch:
            patch.setattr(LogWriter, "append", failing)
            return run("run", *words)

    return call
