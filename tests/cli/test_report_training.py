"""`privplan report` of an audit of a training, next to the verdict on its description."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from privplan.audit.model_audits.audit_chain import AUDIT_LOG, read_lines
from privplan.audit.model_audits.kept_audit import read_audit

from ..audit import ledgers
from ..audit.test_model_audit import audited
from ..cases import for_each

DESCRIPTION = """
[claim]
{claim}
delta = 1e-5
neighbours = "{neighbours}"
unit = "{unit}"
[data]
records = {records}
[sampling]
method = "poisson"
rate = 0.01
[noise]
noise_multiplier = {noise}
[schedule]
steps = 100
"""


def described(
    claim: str = "epsilon = 1.0",
    neighbours: str = "add-remove",
    unit: str = "record",
    records: int = 80,
    noise: float = 1.0,
) -> str:
    text = DESCRIPTION.format(
        claim=claim, neighbours=neighbours, unit=unit, records=records, noise=noise
    )
    Path("run.toml").write_text(text)
    return "run.toml"


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an audit of a training that remembers its records by heart.

    Of 60 guesses nearly all are right, which no training of epsilon 1 has.
    """
    folder = tmp_path_factory.mktemp("audits") / "a"
    audited(folder, guesses=60, shadows=16)
    return folder


def test_a_claim_that_the_training_does_not_keep_is_contradicted(run: Any, audit: Path) -> None:
    file = described()
    assert run("check", file).code == 0  # what is described keeps it; what ran does not
    done = run("report", str(audit), "--check", file, "-o", "page.html")
    assert done.code == 1
    assert "What was measured contradicts what is claimed." in done.out
    assert "for whoever may see the records" in done.out
    result = run("report", str(audit), "--check", file, "-o", "page.html", "--json").json["result"]
    assert result["contradicted"] == ["claimed", "proven"]
    assert result["proven"]["upper"] < 1.0 < result["measured"]
    assert (result["verdict"], result["compared"], result["delta"]) == ("holds", True, 1e-5)
    page = Path("page.html").read_text()
    assert "contradicts what is claimed" in page
    assert "<script" not in page
    facts = read_audit(audit).facts
    assert facts.to_items()["coins"]["bits"] not in page  # type: ignore[index]
    assert result["plan_head"] in page


@for_each(
    "said, code, sentence",
    [
        ({"claim": ""}, 1, "is not the training that was described"),
        ({"claim": "epsilon = 90.0", "noise": 0.3, "records": 900}, 0, "HOLDS"),
        ({"claim": "epsilon = 0.1"}, 1, "contradicts what is claimed"),
        ({"neighbours": "replace-one", "noise": 2.0}, 0, "coins add or remove one record"),
        ({"unit": "user"}, None, "coins add or remove one record"),
    ],
    ids=["no claim", "holds", "false", "another relation", "another unit"],
)
def test_claimed_proven_and_measured_stand_on_one_page(
    run: Any, audit: Path, said: dict[str, Any], code: int | None, sentence: str
) -> None:
    done = run("report", str(audit), "--check", described(**said), "-o", "page.html")
    page = " ".join(Path("page.html").read_text().split())
    assert sentence in page
    assert code in (None, done.code)
    assert ("The description is of 900 records" in page) == ("records" in said)
    assert "Does the training tell who was in it?" in page


def test_the_claim_of_the_plan_stands_whatever_is_described_later(run: Any, tmp_path: Path) -> None:
    audited(tmp_path / "b", guesses=60, shadows=16, claimed=0.1)
    Path("later.toml").write_text("[data]\nrecords = 80\n")
    for described_later in ("later.toml", described(unit="user")):
        done = run("report", str(tmp_path / "b"), "--check", described_later, "-o", "page.html")
        assert done.code == 1
        assert "contradicts the claim that the plan fixed: epsilon 0.1" in done.out
    # What is sealed in the folder stands in the page.
    assert stat.S_IMODE(Path("page.html").stat().st_mode) == 0o600


def test_without_a_description_the_audit_stands_alone(run: Any, audit: Path) -> None:
    head = read_lines(audit)[0][0].hash
    done = run("report", str(audit), "-o", "page.html", "--head", head[:40])
    assert done.code == 0
    assert "chain and head" in done.out
    assert "line 1 has the head that was kept elsewhere" in Path("page.html").read_text()
    other = run("report", str(audit), "-o", "page.html", "--head", "0" * 64)
    assert other.code == 2
    assert "No line has the expected head" in other.err


def test_what_is_no_finished_audit_gets_no_page(run: Any, audit: Path, tmp_path: Path) -> None:
    ledgers.written(tmp_path / "run", ledgers.weighted())
    ours = run("report", str(tmp_path / "run"), "--check", described(), "-o", "page.html")
    assert ours.code == 2
    assert "`check` is for folders of privplan.audit_model" in ours.err
    shutil.copytree(audit, tmp_path / "open")
    log = tmp_path / "open" / AUDIT_LOG
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    unfinished = run("report", str(tmp_path / "open"), "-o", "page.html")
    assert unfinished.code == 2
    assert "is not finished" in unfinished.err
    (tmp_path / "open" / "sealed.jsonl").unlink()
    alone = run("report", str(tmp_path / "open"), "-o", "page.html")
    assert "Ask the owner of the audit for the whole folder" in alone.err
    key = run("report", str(audit), "-o", "page.html", "--public-key", "0" * 64)
    assert key.code == 2
    assert not Path("page.html").exists()


def test_a_stranger_checks_the_log_alone(run: Any, audit: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / AUDIT_LOG
    copy.write_bytes((audit / AUDIT_LOG).read_bytes())
    plan = read_lines(audit)[0][0].hash
    told = run("audit", "log", str(tmp_path / "copy"), "--head", plan, "--json")
    result = told.json["result"]
    assert (told.code, result["plan_head"], result["anchor"]) == (0, plan, 1)
    assert (result["complete"], result["stated"], result["checked"]) == (
        True,
        None,
        "chain and head",
    )
    assert "sealed" in run("audit", "log", str(tmp_path / "copy")).out
    lines = copy.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    cut = run("audit", "log", str(tmp_path / "copy"))
    assert cut.code == 1
    assert "line 4 is bad" in cut.out


def test_a_page_replaces_nothing_of_an_audit(run: Any, audit: Path, tmp_path: Path) -> None:
    shutil.copytree(audit, tmp_path / "a")
    for name in (AUDIT_LOG, "sealed.jsonl"):
        done = run("report", str(tmp_path / "a"), "-o", str(tmp_path / "a" / name))
        assert done.code == 2
        assert "is there, and is no report" in done.err
