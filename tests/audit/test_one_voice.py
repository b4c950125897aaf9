"""Edited logs before all commands: what one calls an error, none calls supported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.hazards import RULES
from privplan.audit.verify import verify
from privplan.cli.main import app

from ..cases import for_each
from ..sweeps import sweep
from . import forging, ledgers
from .edited import BESIDE, EDITS, MOMENTS, THRICE, needs_runs
from .fault_table import TABLE
from .forging import (
    EarlierRun,
    Edit,
    each,
)

# --- by values, and not by words ----------------------------------------------------------------


def shrinking(line: dict[str, Any]) -> None:
    """Let clip, sensitivity and noise shrink together, under a phase name for each round."""
    factor = 1.0 - line["round"] / 100.0
    line["phase"] = f"train{line['round']}"
    line["contribution"]["bound"] = repr(float(line["contribution"]["bound"]) * factor)
    line["sensitivity"] = repr(float(line["sensitivity"]) * factor)
    for name in ("std", "share_std"):
        line["noise"][name] = repr(float(line["noise"][name]) * factor)


def dividing(line: dict[str, Any]) -> None:
    line["normaliser"]["value"] = repr(29.0 + line["round"])


def sampling(line: dict[str, Any]) -> None:
    line["sampling"].update(method="poisson", rate="0.0001", drawn_by="shared-secret")


VALUES: dict[str, tuple[str, tuple[Edit, ...], set[str]]] = {
    "a clip that moves under many names": (
        THRICE,
        (each("round.intent", shrinking),),
        {"adaptive-clip"},
    ),
    "a constant of 30, 31, 32": (
        THRICE,
        (each("round.release", dividing),),
        {"moving-normaliser"},
    ),
    "a cipher that nobody knows": (
        THRICE,
        (each("run.open", lambda line: line["randomness"].update(cipher="rot13")),),
        {"unknown-cipher"},
    ),
    "a seed": (
        THRICE,
        (each("run.open", lambda line: line["randomness"].update(source="seeded")),),
        {"seeded"},
    ),
}


@for_each("name", list(VALUES))
def test_values_are_judged_and_not_words(
    earlier_run: EarlierRun, tmp_path: Path, name: str
) -> None:
    run, edits, expected = VALUES[name]
    report = audit_budget(forging.forged(earlier_run(run), tmp_path / "forged", *edits))
    errors = {hazard.id for hazard in report.hazards if hazard.severity == "error"}
    assert expected <= errors <= expected | {"close-under-reports", "configuration-mismatch"}
    assert report.supported is False


def test_facts_of_a_sample_hide_nobody_where_the_events_count_on_none(
    earlier_run: EarlierRun, tmp_path: Path
) -> None:
    honest = audit_budget(earlier_run(THRICE)).total.upper
    folder = forging.forged(
        earlier_run(THRICE), tmp_path / "forged", each("round.intent", sampling)
    )
    assert audit_budget(folder).total.upper == pytest.approx(honest, rel=1e-9)


# --- all commands -------------------------------------------------------------------------------

GREEN = ("supports it", "supports what it claims")


def said_by(folder: Path, *words: str) -> tuple[int, str, dict[str, Any]]:
    """Return the exit code of a command, all that it prints, and its JSON."""
    shown = CliRunner().invoke(app, [*words, str(folder)])
    as_json = CliRunner().invoke(app, [*words, "--json", str(folder)])
    assert as_json.exit_code == shown.exit_code
    return shown.exit_code, shown.output, json.loads(as_json.stdout)


def require_one_voice(folder: Path, page: Path) -> None:
    """Require that no command finds a log good in which another finds an error."""
    edits = edits_of(folder)
    code, text, result = said_by(folder, "audit", "log")
    assert (code, result["ok"]) == ((1, False) if edits else (0, True))
    assert all(one.id in text for one in edits)
    texts = [text]
    for words in (("audit", "budget"), ("audit", "budget", "--sealed")):
        code, text, result = said_by(folder, *words)
        if words[-1] == "--sealed" and code == 2:
            continue  # the sidecar does not fit the log, which is said
        assert (code, result["ok"], result["result"]["supported"]) == (1, False, False)
        assert {hazard.id for hazard in edits} <= {
            hazard["id"] for hazard in result["result"]["hazards"]
        }
        assert "does NOT support it" in text
        texts.append(text)
    code, text, result = said_by(folder, "report", "-o", str(page))
    assert (code, result["ok"], result["result"]["ok"]) == (1, False, False)
    texts += [text, page.read_text()]
    cheap = (
        "--no-append",
        "--seed",
        "1",
        "--canaries",
        "500",
        "--tier",
        "claim",
        "--tier",
        "robust",
    )
    code, text, result = said_by(folder, "audit", "attack", *cheap)
    assert code == 2 if edits else code in (0, 1, 2)
    if code != 2:
        assert "does not support its claim" in " ".join(text.split())
    texts.append(text)
    plain = [" ".join(one.split()) for one in texts]
    assert not any(green in one for one in plain for green in GREEN)


@pytest.mark.quick(5)
@needs_runs
@for_each("name", [*EDITS, *VALUES])
def test_commands_speak_with_one_voice_of_an_edited_log(
    earlier_run: EarlierRun, tmp_path: Path, name: str
) -> None:
    run, edits, _ = {**EDITS, **VALUES}[name]
    folder = forging.forged(earlier_run(run), tmp_path / "forged", *edits)
    require_one_voice(folder, tmp_path / "page.html")


@pytest.mark.quick(5)
@needs_runs
@for_each("name", list(BESIDE))
def test_and_of_files_that_do_not_belong_to_it(
    earlier_run: EarlierRun, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(earlier_run(MOMENTS), folder)
    BESIDE[name][0](folder)
    require_one_voice(folder, tmp_path / "page.html")


FAULTS = [name for name in TABLE if RULES[name].severity == "error"]


@for_each("name", sweep(FAULTS, quick=8))
def test_and_of_every_fault_that_is_an_error(tmp_path: Path, name: str) -> None:
    """These logs have no configuration and no sidecar, so less can be asked of them."""
    make, fault, _ = TABLE[name]
    folder, page = ledgers.written(tmp_path / "run", fault(make())), tmp_path / "page.html"
    broken = not verify(folder).ok
    code, text, result = said_by(folder, "audit", "log")
    named = {one["id"] for one in result["result"]["contradictions"]}
    assert broken or {one.id for one in edits_of(folder)} <= named
    assert (code, result["ok"]) == ((1, False) if broken or named else (0, True))
    code, shown, result = said_by(folder, "audit", "budget")
    assert (code, result["ok"]) == (1, False)
    assert result["result"]["supported"] in (None, False)
    texts = [text, shown]
    code, text, result = said_by(folder, "report", "-o", str(page))
    assert (code, result["ok"]) == ((2, False) if broken else (1, False))
    texts += [text] if broken else [text, page.read_text()]
    code, text, _ = said_by(folder, "audit", "attack", "--no-append", "--canaries", "500")
    assert code in (1, 2)
    plain = [" ".join(one.split()) for one in (*texts, text)]
    assert not any(green in one for one in plain for green in GREEN)


@needs_runs
def test_a_seeded_run_is_never_called_supported(earlier_run: EarlierRun, tmp_path: Path) -> None:
    require_one_voice(earlier_run("avg-seeded"), tmp_path / "page.html")
