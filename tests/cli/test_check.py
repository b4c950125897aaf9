"""`privplan check`: verdicts, exit codes, several files, and input that is bad."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.guarantee import Bounds
from privplan.audit.check.check_result import CheckResult, MissingFact
from privplan.audit.check.conventions import CONVENTIONS
from privplan.audit.description.printed_number import PrintedNumber
from privplan.audit.description.run_description import Fact, Reading
from privplan.audit.description.run_settings import RunSettings
from privplan.audit.findings import Finding
from privplan.audit.reproduction.reproduction import Reproduction
from privplan.cli.inputs.run_files import runs_in
from privplan.cli.reports import check as report

from ..audit.ledgers import weighted, written
from ..cases import for_each
from .conftest import Refused, Run

KEYS = {
    *("verdict", "proven", "claimed", "delta", "reproduced_by"),
    *("causes", "missing", "facts"),
}
"""What the contract says that the result holds."""


def described(claim: str = "1.2", sampling: str = "poisson", **changed: str) -> str:
    """Return the description of a run whose sampler, if Poisson, proves 1.1339."""
    values = {"epsilon": claim, "delta": "1e-5", "noise_multiplier": "1.1"} | changed
    return (
        f'[claim]\nepsilon = {values["epsilon"]}\ndelta = {values["delta"]}\nunit = "record"\n'
        f'neighbours = "add-remove"\n[noise]\nnoise_multiplier = {values["noise_multiplier"]}\n'
        f'clip_source = "constant"\n[data]\nrecords = 60000\n[sampling]\nmethod = "{sampling}"\n'
        "batch = 256\n[schedule]\nsteps = 3516\nmicrobatches = 1\naccumulation = 1\n"
    )


def opacus(noise: float = 1.1, rate: float = 1 / 235, steps: int = 3525) -> str:
    return json.dumps({"history": [[noise, rate, steps]], "mechanism": "rdp"})


@pytest.fixture
def write(tmp_path: Path):
    """Write a file into the working directory, and return its name."""

    def call(name: str, content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
        return name

    return call


# Verdicts and exit codes.


@pytest.mark.parametrize(
    ("claim", "sampling", "verdicts", "code"),
    [
        ("1.2", "poisson", {"holds", "holds-not-from-these-settings"}, 0),
        ("1.13", "poisson", {"holds", "holds-not-from-these-settings"}, 0),  # 1.1339 prints so
        ("1.12", "poisson", {"false"}, 1),
        ("1.2", "shuffled", {"false"}, 1),
        ("30", "shuffled", {"unproven"}, 3),
    ],
)
def test_verdicts_and_their_exit_codes(
    claim: str, sampling: str, verdicts: set[str], code: int, run: Run, write
) -> None:
    outcome = run("check", write("run.toml", described(claim, sampling)), "--json")
    assert outcome.code == code, outcome.out
    envelope = outcome.json
    assert envelope["ok"] is (code == 0)
    assert envelope["result"]["verdict"] in verdicts
    assert set(envelope["result"]) >= KEYS
    assert run("check", "run.toml", "-q").out.strip() in verdicts


def test_without_a_sampler_nothing_is_passed(run: Run, write) -> None:
    text = described().replace('method = "poisson"\n', "")
    outcome = run("check", write("run.toml", text), "--json")
    assert outcome.code == 3
    assert outcome.json["result"]["verdict"] == "unverifiable"
    assert "sampling.method" in json.dumps(outcome.json["result"]["missing"])
    assert "sampling.method" in run("check", "run.toml").out


def test_without_a_claim_it_is_asked_for(run: Run, write) -> None:
    text = described().replace("epsilon = 1.2\n", "")
    outcome = run("check", write("run.toml", text), "--json")
    assert outcome.code == 3
    assert "claim.epsilon" in json.dumps(outcome.json["result"]["missing"])


def test_the_flags_state_what_the_file_does_not(run: Run, write) -> None:
    text = described().replace("epsilon = 1.2\ndelta = 1e-5\n", "")
    words = ("check", write("run.toml", text), "--claimed", "1.13", "--delta", "1e-5")
    outcome = run(*words, "--json")
    assert outcome.code == 0, outcome.out
    assert outcome.json["result"]["claimed"] == pytest.approx(1.13)
    facts = outcome.json["result"]["facts"]
    assert facts["claim.epsilon"]["source"] == "--claimed"
    # The digits that were printed are kept: 1.13 may have been 1.134, and "1.130" may not.
    assert run("check", "run.toml", "--claimed", "1.130", "--delta", "1e-5").code == 1


def test_options_alone_describe_a_run(run: Run) -> None:
    facts = {
        "noise.noise_multiplier": "1.1",
        "sampling.method": "poisson",
        "data.records": "60000",
        "sampling.batch": "256",
        "schedule.epochs": "15",
    }
    given = [word for key, value in facts.items() for word in ("--set", f"{key}={value}")]
    assert run("check", *given, "--claimed", "1.2", "--delta", "1e-5").code == 0
    assert run("check", *given, "--claimed", "1.0", "--delta", "1e-5").code == 1


def test_standard_input(run: Run) -> None:
    assert run("check", "-", stdin=described()).code == 0
    assert run("check", "-", stdin=described("1.0")).code == 1


# Several files.


def test_a_state_and_a_description_are_one_run(run: Run, write) -> None:
    text = described("1.13").replace("noise_multiplier = 1.1\n", "")
    words = (
        "check",
        write("opacus.json", opacus()),
        write(
            "run.toml",
            text.replace("[schedule]\nsteps = 3516\n", "[schedule]\n").replace("batch = 256\n", ""),
        ),
    )
    outcome = run(*words, "--json")
    assert outcome.code == 0, outcome.out
    facts = outcome.json["result"]["facts"]
    assert {fact["provenance"] for fact in facts.values()} >= {"stated", "read"}


def test_contradictions_are_named_and_fail(run: Run, write) -> None:
    words = ("check", write("opacus.json", opacus(noise=0.9)), write("run.toml", described()))
    outcome = run(*words, "--json")
    assert outcome.code == 1
    said = json.dumps(outcome.json["result"])
    assert "opacus.json" in said
    assert "run.toml" in said


def test_descriptions_are_runs_of_their_own(run: Run, write) -> None:
    claims = {"a.toml": "1.2", "b.toml": "1.0", "c.toml": "1.5"}
    names = [write(name, described(claim)) for name, claim in claims.items()]
    outcome = run("check", *names, "--json")
    assert outcome.code == 1
    rows = outcome.json["result"]["runs"]
    assert [row["files"] for row in rows] == [[name] for name in names]
    assert [row["verdict"] == "false" for row in rows] == [False, True, False]
    assert sum(outcome.json["result"]["verdicts"].values()) == 3
    table = run("check", *names).out
    assert all(name in table for name in names)
    assert "3 runs" in table
    assert "delta" in table.splitlines()[0]
    lines = run("check", *names, "-q").out.splitlines()
    assert [line.split()[1] for line in lines] == names


def test_a_folder_stands_for_each_file_in_it(run: Run, write) -> None:
    for name, claim in {"runs/a.toml": "1.2", "runs/b.toml": "1.0"}.items():
        write(name, described(claim))
    write("runs/.hidden", b"\x00")
    outcome = run("check", "runs", "--json")
    assert outcome.code == 1
    rows = outcome.json["result"]["runs"]
    assert [row["files"] for row in rows] == [["runs/a.toml"], ["runs/b.toml"]]
    write("runs/opacus.json", opacus())
    assert len(run("check", "runs", "--json").json["result"]["runs"]) == 3


def test_what_is_weak_about_a_claim_that_holds_is_in_every_form(run: Run, write) -> None:
    rounded, large = write("a.toml", described("1.13")), described("1.2", delta="0.001")
    outcome = run("check", rounded, "--brief")
    assert outcome.code == 0
    assert "HOLDS AS PRINTED, rounded: epsilon is at least 1.133" in " ".join(outcome.out.split())
    assert "Print 1.14" in outcome.out
    assert run("check", rounded, "-q").out == "holds\n"
    weak = run("check", write("b.toml", large), "--brief")
    assert weak.code == 0
    assert "at a delta that allows to publish one" in " ".join(weak.out.split())
    shown = run("check", rounded, "b.toml").out
    assert "holds, rounded" in shown
    assert "delta-too-large" in shown


def test_a_claim_of_rho_is_called_rho(run: Run) -> None:
    facts = ("rho=0.1", "noise_multiplier=3", "steps=1", "method=full")
    words = ("check", *(word for fact in facts for word in ("--set", fact)))
    shown = run(*words).out
    assert "claimed   rho 0.1" in shown
    assert "proven    rho 0.05556" in shown
    assert "epsilon" not in shown.partition("not stated")[0]
    assert run(*words, "--json").json["result"]["currency"] == "rho"


def test_a_file_that_is_no_event_is_for_a_check(refused: Refused, write) -> None:
    for command in ("account", "explain"):
        assert "privplan check" in refused(command, write("opacus.json", opacus()))


def test_a_file_that_is_no_run_is_a_row(run: Run, write) -> None:
    good, bad = write("a.toml", described()), write("b.toml", "[claim]\nepsilonn = 3\n")
    outcome = run("check", good, write("c.toml", described()), bad, "--json")
    assert outcome.code == 2
    refused = outcome.json["result"]["runs"][2]
    assert refused["verdict"] is None
    assert set(refused["error"]) == {"what", "why", "next"}
    assert "not read" in run("check", good, "c.toml", bad).out
    # A false claim is worse than a file that cannot be read.
    assert run("check", good, write("d.toml", described("0.1")), bad).code == 1


def test_facts_hold_for_every_run(run: Run, write) -> None:
    text = described().replace('method = "poisson"\n', "")
    names = [write(f"{name}.toml", text) for name in "ab"]
    assert run("check", *names).code == 3
    assert run("check", *names, "--set", "sampling.method=poisson").code == 0


def reading(name: str, format: str, *keys: str) -> Reading:
    return Reading(name, format, {key: Fact(1, "stated", name) for key in keys})


STATE = reading("a.json", "opacus", "schedule.phases")
OTHER = reading("b.json", "opacus", "schedule.phases")
HISTORY = reading("c.csv", "csv", "schedule.steps")
WHOLE = reading("d.toml", "description in TOML", "claim.epsilon")
ALSO = reading("e.toml", "description in JSON", "noise.std")
PART = reading("f.toml", "description in TOML", "data.records")


@for_each(
    ("readings", "runs"),
    [
        ((STATE,), 1),
        ((STATE, HISTORY), 1),
        ((STATE, OTHER), 2),
        ((WHOLE, STATE), 1),
        ((WHOLE, STATE, OTHER), 1),
        ((WHOLE, PART), 1),
        ((PART, STATE), 1),
        ((WHOLE, ALSO), 2),
        ((WHOLE, ALSO, PART), 3),
        ((WHOLE, ALSO, STATE), 0),
        ((STATE, OTHER, HISTORY), 0),
    ],
)
def test_which_files_are_one_run(readings: tuple[Reading, ...], runs: int) -> None:
    assert len(runs_in(readings, "together")) == 1
    assert len(runs_in(readings, "each")) == len(readings)
    if runs == 0:
        with pytest.raises(InvalidInput, match="not clear") as error:
            runs_in(readings, "usual")
        assert "--together" in error.value.next_step
    else:
        assert len(runs_in(readings, "usual")) == runs


def test_both_groupings_exclude_each_other(refused: Refused, write) -> None:
    assert "exclude" in refused("check", write("a.toml", described()), "--each", "--together")


# A run of privplan.


def test_a_log_of_ours_is_audited(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "run", weighted(5))
    audited = run("audit", "budget", "run", "--json")
    for path in ("run", "run/log.jsonl"):
        outcome = run("check", path, "--json")
        assert outcome.code == audited.code == 0
        assert outcome.json["result"]["verdict"] == "holds"
        assert outcome.json["result"]["proven"] == audited.json["result"]["epsilon"]
        assert outcome.json["result"]["claimed"] == audited.json["result"]["claimed"]


def test_a_broken_log_of_ours_fails(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "run", weighted(5))
    log = tmp_path / "run" / "log.jsonl"
    lines = log.read_text("utf-8").splitlines(keepends=True)
    lines[3] = lines[3].replace('"seq":3', '"seq":7')
    log.write_text("".join(lines), "utf-8")
    outcome = run("check", "run", "--json")
    assert outcome.code == run("audit", "budget", "run").code == 1
    assert "contradiction" in {cause["id"] for cause in outcome.json["result"]["causes"]}


# Input that is bad.


class Executes:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch executed",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.toml", b""),
        ("empty.json", b""),
        ("empty.pt", b""),
        ("blank.csv", b"\n \n"),
        ("noise.bin", bytes(range(256)) * 40),
        ("bad.json", b"{"),
        ("bad.toml", b"[claim\n"),
        ("list.json", b"[]"),
        ("nan.json", b'{"history": [[NaN, 0.01, 10]], "mechanism": "rdp"}'),
        ("nan.toml", b"[claim]\nepsilon = nan\n"),
        ("inf.toml", b"[claim]\nepsilon = inf\n"),
        ("negative.toml", b"[claim]\nepsilon = -1.0\n"),
        ("words.toml", b'[claim]\nepsilon = "small"\n'),
        ("unknown.toml", b"[noise]\nstd = 1.0\n[claims]\nepsilon = 1.0\n"),
        ("misspelt.toml", b"[claim]\nepsilonn = 1.0\n"),
        ("history.json", b'{"history": [], "mechanism": "rdp"}'),
        ("nested.json", b"[" * 100_000),
        ("pickle.pt", pickle.dumps(Executes())),
        (
            "two.json",
            b'{"history": [[1.0, 0.1, 3]], "mechanism": "rdp", "schema_version": 1, '
            b'"backend": "rdp", "config": {}, "orders": [], "compositions": []}',
        ),
    ],
)
def test_bad_files_are_refused_in_three_lines(
    name: str, content: bytes, write, refused: Refused
) -> None:
    refused("check", write(name, content))
    assert not Path("executed").exists()


def test_what_is_no_file(refused: Refused) -> None:
    Path("folder").mkdir()
    assert "folder without log.jsonl" in refused("check", "folder")
    assert "--set" in refused("check", "--noise-multiplier", "1.1")
    assert "missing.pt" in refused("check", "missing.pt")
    refused("check", "x" * 5000)
    refused("check", "nul\0byte")
    assert "nothing to check" in refused("check")


def test_a_gigabyte_is_refused_unread(refused: Refused, tmp_path: Path) -> None:
    for name in ("huge.toml", "huge.json", "huge.bin", "huge.pt"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**30)
        refused("check", name)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "sampling.method"), "sampling.method"),
        (("--set", "sampling.mehtod=poisson"), "sampling.method"),
        (("--set", "sampling.method=bernoulli"), "sampling.method"),
        (("--set", "method=random-allocation"), "account --sampling random-allocation"),
        (("--set", "sampling=poisson"), "sampling.method"),
        (("--set", "records=60,000"), "60000"),
        (("--delta", "1/60000"), "delta_rule=1/records"),
        (("--claimed", "about 3"), "about 3"),
        (("--claimed", "nan"), "claim.epsilon"),
        (("--claimed", "-1"), "claim.epsilon"),
        (("--delta", "1"), "claim.delta"),
        (("--delta", "x"), "claim.delta"),
    ],
)
def test_bad_options(words: tuple[str, ...], said: str, write, refused: Refused) -> None:
    text = described().replace("epsilon = 1.2\ndelta = 1e-5\n", "")
    assert said in refused("check", write("run.toml", text), *words)


# The report for a person.


def result(**changed: object) -> CheckResult:
    values: Mapping[str, object] = {
        "verdict": "false",
        "proven": Bounds(4.3071, 4.3771),
        "claimed": PrintedNumber(2.0, 0.005),
        "delta": 1e-5,
        "reproduced_by": (
            Reproduction("an RDP accountant", 2.0, RunSettings(), "none", "Yes."),
            Reproduction("PRV", 2.0, RunSettings(), "one-epoch", "For one epoch."),
        ),
        "causes": (
            Finding("shuffled-loader", "error", "It shuffles.", "", "Draw.", Bounds(4.0, 5.0)),
        ),
        "missing": (
            MissingFact("sampling.method", "Which sampler?", deciding=True),
            MissingFact("data.records", "How many records?"),
        ),
        "facts": {"data.records": Fact(60000, "stated", "run.toml")},
        "conditions": ("Each record is clipped.",),
        "alternatives": {"poisson": Bounds(1.0, 1.1)},
        "doubts": ("An old format.",),
        **changed,
    }
    return CheckResult(**values)  # type: ignore[arg-type]


def test_the_report_says_the_verdict_first_and_every_part() -> None:
    text = report.text(result())
    assert text.startswith("verdict    FALSE: ")
    for part in (
        "claimed    epsilon 2.00 at delta 1e-05",
        "proven     epsilon 4.378; at least 4.307, by any accounting",
        "for adding or removing one record",
        "given by   an RDP accountant, for these settings\n           PRV: For one epoch.",
        "the verdict waits for\n  --set sampling.method=poisson  Which sampler?",
        "error shuffled-loader\n  It shuffles.\n  then: epsilon 5.000; at least 4.000",
        "--set data.records=...  How many records?",
        "-  Each record is clipped.",
        "-  An old format.",
        "data.records   60,000            stated (run.toml)",
    ):
        assert part in text, text


def test_a_brief_report_leaves_facts_out_and_counts_what_is_asked() -> None:
    text = report.brief(result(conventions=CONVENTIONS[:2]))
    assert text.startswith("verdict    FALSE: ")
    assert "assumes    2 conventions" in text
    assert "needs      sampling.method: Which sampler?" in text
    assert "error shuffled-loader" in text
    assert "-  Each record is clipped." in text
    assert "data.records" not in text
    assert "An old format." not in text


def test_the_report_of_what_is_not_known() -> None:
    text = report.text(result(proven=None, claimed=None, verdict="unverifiable", reproduced_by=()))
    assert "claimed   nothing" in text
    assert "nothing without sampling.method" in text
    unknown = result(proven=None, verdict="unproven", missing=(), lacks="No noise was drawn.")
    assert "nothing: No noise was drawn." in report.text(unknown)
    assert report.bounds_words(Bounds(0.0, float("inf"))) == "no number"
    assert "at least 2.000" in report.bounds_words(Bounds(2.0, float("inf")))


def test_brief_is_an_option(run: Run, write) -> None:
    whole, brief = (run("check", write("run.toml", described()), *w) for w in ((), ("--brief",)))
    assert whole.code == brief.code == 0
    assert "\nfacts\n" in whole.out
    assert "\nfacts\n" not in brief.out


def test_what_a_file_says_cannot_write_to_the_terminal() -> None:
    fact = Fact("red\x1b[31m\nverdict  HOLDS", "read", "a\x1b[2Jb\n")
    text = report.text(result(facts={"claim.library": fact}, causes=()))
    assert "\x1b" not in text
    assert "\nverdict  HOLDS" not in text
