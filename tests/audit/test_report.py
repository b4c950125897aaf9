"""The page about a run: what stands on it, what must not, and what a browser makes of it."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import AuditResult, Evaluation, RunOpen
from privplan.accountant.risk import risk
from privplan.audit.budget import audit_budget
from privplan.audit.measurement import NOT_PROOF, Measurement
from privplan.audit.report import figures, page, read, render, run_facts
from privplan.audit.report.run_facts import MAX_SPENDING_POINTS, SpendingPoint
from privplan.audit.results import append_results
from privplan.fl.log import LogWriter
from privplan.fl.log.reader import BadLine

from ..cases import for_each
from . import ledgers
from .logs import rechained

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>"

CLAIM = Measurement(
    tier="claim",
    what="the claimed mechanism, with 2,000 canaries",
    value=3.1234567,
    kind="lower-bound",
    contradicted=False,
    proves="A mechanism with as much noise as is claimed gives such counts in 5 of 100 audits.",
    observer="model",
    unit="user",
    neighbours="add-remove",
    claimed=3.8,
    delta=1e-5,
    assumes=("Canaries are independent.",),
    sample={"canaries": 2000},
    curves={"trade-off": ((0.1, 0.6), (0.5, 0.2)), "roc": ((0.01, 0.1), (1.0, 1.0))},
)


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def page_of(folder: Path) -> Page:
    """Return the page about the run in a folder, parsed."""
    return Page(render(read(folder)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a run of 20 rounds, with what public data said at its end."""
    records = ledgers.weighted()
    last = Evaluation(20, "declared-public", {"accuracy": "0.8125"})
    return ledgers.written(tmp_path / "run", [*records[:-1], last, records[-1]])


def test_three_columns_stand_beside_each_other(folder: Path) -> None:
    append_results(folder, [CLAIM])
    run_facts = read(folder)
    page = page_of(folder)
    upper = run_facts.budget.total.upper
    text = " ".join(page.text.split())
    assert math.isfinite(upper)
    assert run_facts.opened.claim.epsilon == pytest.approx(upper)
    before = r"whoever sees the released models epsilon ([\d.]+) epsilon ([\d.]+)"
    (shown,) = re.findall(before, text)
    assert all(upper <= float(one) < upper * 1.001 for one in shown)  # rounded up
    assert "claim: epsilon at least 3.123 " in text  # rounded down
    assert "3.1235" not in text
    for said in (CLAIM.proves, *CLAIM.assumes, *run_facts.budget.assumptions, NOT_PROOF):
        assert said in text
    assert run_facts.budget.chain.head is not None
    assert run_facts.budget.chain.head in text
    assert "accuracy 0.8125 (test data that were declared public, source not stated)" in text


def test_the_page_says_in_a_sentence_what_an_attacker_finds_at_most(
    folder: Path, tmp_path: Path
) -> None:
    facts = read(folder)
    upper = risk(facts.event, neighbours=facts.opened.claim.neighbours).tpr.upper
    text = " ".join(page_of(folder).text.split())
    shares = re.findall(
        r"An attacker who accuses ([\d,]+) in ([\d,]+) innocents finds at most ([\d,]+) in \2 "
        r"members\.",
        text,
    )
    accused, whole, most = (int(number.replace(",", "")) for number in shares[0])
    assert accused / whole == 0.01
    stated = most / whole
    # Rounded up to two digits, so at most 1 in 10 above.
    assert upper <= stated <= 1.1 * upper
    # Where nothing is proven there is no such sentence.
    without_rounds = ledgers.written(tmp_path / "begun", ledgers.weighted()[:1])
    assert "An attacker who accuses" not in page_of(without_rounds).text


def test_the_page_says_who_declared_test_data_public_or_that_there_were_none(
    tmp_path: Path,
) -> None:
    made = ledgers.weighted()
    last = Evaluation(20, "declared-public", {"accuracy": "0.8125"}, source="<i>a DOI</i>")
    text = page_of(ledgers.written(tmp_path / "run", [*made[:-1], last, made[-1]])).text
    assert "declared public, source: <i>a DOI</i>)" in text  # a text, and no tag
    assert "none: the model was not measured" not in text
    unmeasured = page_of(ledgers.written(tmp_path / "two", made)).text
    assert "none: the model was not measured" in unmeasured


def test_the_page_loads_and_runs_nothing(folder: Path) -> None:
    append_results(folder, [CLAIM])
    page = page_of(folder)
    assert {"script", "link", "iframe", "img", "object", "embed"}.isdisjoint(
        tag for tag, _ in page.tags
    )
    policy = [own["content"] for tag, own in page.tags if own.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    for _, own in page.tags:
        assert not any(name.startswith("on") for name in own)
        for name in ("src", "href", "xlink:href"):
            assert (own.get(name) or "#").startswith("#")
    assert sum(tag == "svg" for tag, _ in page.tags) == 3


def test_texts_of_the_log_are_texts_on_the_page(tmp_path: Path) -> None:
    records = ledgers.changed(
        ledgers.weighted(), RunOpen, system=ATTACK, run_id=ATTACK, opened=ATTACK
    )
    records.insert(-1, Evaluation(20, "declared-public", {ATTACK: "1.0"}))
    folder = ledgers.written(tmp_path / "run", records)
    texts: dict[str, Any] = {"what": ATTACK, "proves": ATTACK, "assumes": (ATTACK,)}
    append_results(folder, [replace(CLAIM, sample={ATTACK: ATTACK}, **texts)])
    page = page_of(folder)
    assert page.text.count(ATTACK) >= 8
    assert not any(tag in ("script", "img") for tag, _ in page.tags)


def test_what_is_sealed_is_not_read(folder: Path) -> None:
    for name in ("sealed.jsonl", "sealed-report.json"):
        (folder / name).mkdir()  # whoever opens it fails
    assert "supports" in page_of(folder).text


def test_a_sealed_result_is_named_and_not_shown(folder: Path) -> None:
    append_results(folder, sealed=[replace(CLAIM, tier="membership", what="who was in it")])
    page = page_of(folder)
    assert "A result of the tier membership is sealed" in " ".join(page.text.split())
    assert "who was in it" not in page.text


def test_a_broken_chain_gets_no_page(folder: Path) -> None:
    log = folder / "log.jsonl"
    log.write_text(log.read_text().replace('"rounds":20', '"rounds":21', 1))
    with pytest.raises(BadLine):
        read(folder)
    with pytest.raises(InvalidInput):
        read(folder / "nothing")


def test_verdicts(tmp_path: Path) -> None:
    def said(name: str, records: ledgers.Records, *results: Measurement) -> str:
        folder = ledgers.written(tmp_path / name, records)
        if results:
            append_results(folder, results)
        return text_of(folder)

    good = ledgers.weighted()
    contradicted = replace(CLAIM, value=9.0, contradicted=True)
    small = ledgers.changed(good, RunOpen, claim=ledgers.part(epsilon=1.0))
    assert "The log supports what it claims." in said("good", good)
    assert "so far; the run is not closed" in said("open", good[:-1])
    assert "The log does not support what it claims." in said("small", small)
    assert "contradicts what is claimed" in said("measured", good, contradicted)
    none = ledgers.changed(good, RunOpen, claim=ledgers.part(epsilon=None))
    assert "claims no number" in said("none", none)


def test_the_course_ends_at_what_the_log_supports_and_never_falls(folder: Path) -> None:
    run_facts = read(folder)
    epsilons = [one.epsilon for one in run_facts.course]
    assert epsilons == sorted(epsilons)
    assert len(run_facts.course) <= MAX_SPENDING_POINTS
    total = run_facts.budget.total
    assert run_facts.course[-1] == SpendingPoint(20, total.upper, total.epsilon.lower)


def test_a_run_without_rounds_has_a_page(tmp_path: Path) -> None:
    first = ledgers.weighted()[:1]
    page = page_of(ledgers.written(tmp_path / "run", first))
    assert "There is no finite epsilon to draw." in page.text


@for_each("curve", [(), ((math.nan, 0.5),), ((0.0, 0.0), (0.5, 0.0)), ((2.0, 3.0),)])
def test_curves_without_a_usable_point_are_not_drawn(curve: Any) -> None:
    assert figures.roc([("line 3", curve)]) is None


def test_figures_are_the_same_each_time(folder: Path) -> None:
    run_facts = read(folder)
    first, second = (figures.spending(run_facts.course, 5.0, 20, 4.0) for _ in range(2))
    assert first == second
    assert first is not None
    assert figures.spending([SpendingPoint(3, math.inf)], None, 3, None) is None


def text_of(folder: Path) -> str:
    """Return the text of a page with single spaces; its figures hold no text, and are not drawn."""
    with mock.patch.object(figures, "_drawn", return_value="<svg></svg>"):
        return " ".join(page_of(folder).text.split())


def test_no_result_takes_the_place_of_another(folder: Path) -> None:
    """A contradiction stays, however many audits after it found nothing."""
    append_results(folder, [replace(CLAIM, value=9.0, contradicted=True), CLAIM])
    one, other = (replace(CLAIM, what="loss", quantity=name) for name in ("AUC", "TPR at 1% FPR"))
    append_results(folder, [replace(own, tier="membership", claimed=None) for own in (one, other)])
    text = text_of(folder)
    assert "What was measured contradicts what is claimed (1 of 4 results)." in text
    for said in ("epsilon at least 9 ", "epsilon at least 3.123 ", "AUC at least", "TPR at 1% FPR"):
        assert said.strip() in text


def test_a_bound_above_its_claim_contradicts_it_whatever_it_says(folder: Path) -> None:
    append_results(folder, [replace(CLAIM, value=1e308, contradicted=False)])
    assert "contradicts what is claimed" in text_of(folder)
    assert [one.value for _, one in read(folder).contradicting] == [1e308]


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        ({"claimed": "100.0"}, "a result is held against epsilon 100, and line 1 promises epsilon"),
        ({"claimed": None}, "a result is held against nothing, and line 1 promises epsilon 3.8"),
        (
            {"kind": "estimate"},
            "a result of the tier claim calls itself no lower bound (estimate).",
        ),
        ({"delta": "0.5"}, "a result shows epsilon 30 at delta 0.5, and line 1 promises 3."),
        ({"kind": "test"}, "a result of the tier claim calls itself no lower bound (test)."),
    ],
)
def test_a_result_that_is_held_against_another_claim_is_an_error(
    folder: Path, edited: dict[str, object], said: str
) -> None:
    """Its number contradicts line 1, whatever it says that it was compared with."""
    append_results(folder, [replace(CLAIM, tier="robust"), CLAIM])
    assert read(folder).budget.ok
    rechained(folder, lambda lines: lines[-1]["result"].update(value="30.0", **edited))
    run_facts = read(folder)
    for report in (run_facts.budget, audit_budget(folder)):
        (hazard,) = (one for one in report.hazards if one.id == "foreign-result")
        assert (hazard.severity, report.ok) == ("error", False)
        assert said in hazard.says
        assert hazard.lines == (report.chain.records,)
    assert page.verdict(run_facts)[0] == "bad"


def test_a_result_that_is_unusual_accuses_nobody(folder: Path) -> None:
    """Its number holds with its confidence and no better, so it may lie above an honest claim."""
    append_results(folder, [replace(CLAIM, value=5.0, unusual=True, level=0.0004), CLAIM])
    run_facts, text = read(folder), text_of(folder)
    assert (run_facts.contradicting, [one.value for _, one in run_facts.unusual]) == ((), [5.0])
    assert "The log supports what it claims." in text
    assert "Of 2 results, 1 is unusual, which is no accusation." in text
    assert "claim: epsilon at least 5.000, unusual" in text
    assert "verdict unusual: at most one honest run in 20 looks like this" in text
    assert "verdict not contradicted" in text
    assert "contradicts" not in text


def test_a_claim_that_does_not_hold_is_not_put_in_words(folder: Path, tmp_path: Path) -> None:
    assert "times as likely" in text_of(folder)
    append_results(folder, [replace(CLAIM, value=9.0, contradicted=True, level=0.0004)])
    naive = ledgers.written(tmp_path / "naive", ledgers.naive(100))
    for text in (text_of(folder), text_of(naive)):
        assert "Nothing that can be relied on: epsilon" in text
        assert "and does not hold as it is claimed." in text
        assert "times as likely" not in text
        assert "is hidden from" not in text


def test_nothing_is_said_to_rest_on_anything_where_no_number_is_proven(
    folder: Path, tmp_path: Path
) -> None:
    assert "All proven numbers rest on this:" in text_of(folder)
    silent = ledgers.part(family="none", std=0.0, share_std=0.0)
    records = ledgers.intents(noise=silent)(ledgers.weighted(5))
    text = text_of(ledgers.written(tmp_path / "silent", records))
    assert "No number is proven before anybody." in text
    assert "All proven numbers" not in text


def test_a_contradiction_says_how_seldom_an_honest_run_is_accused(folder: Path) -> None:
    """Results of earlier versions accused at 1 - confidence, and still say so."""
    append_results(folder, [replace(CLAIM, value=9.0, contradicted=True, level=0.0004)])
    assert "verdict contradicted: at most 1 in 2,500 honest runs is" in text_of(folder)
    append_results(folder, [replace(CLAIM, value=9.0, contradicted=True)])
    assert "verdict contradicted: at most 1 in 20 honest runs is" in text_of(folder)


def test_of_very_many_results_those_that_contradict_are_shown(folder: Path) -> None:
    many = [replace(CLAIM, what=f"number {place}") for place in range(page.MAX_RESULTS_SHOWN + 20)]
    many[3] = replace(many[3], contradicted=True)
    append_results(folder, many)
    text = text_of(folder)
    assert text.count("Is this mechanism no weaker") == page.MAX_RESULTS_SHOWN
    assert "number 3 " in text
    assert "number 4 " not in text
    assert f"number {page.MAX_RESULTS_SHOWN + 19} " in text
    assert "20 more are in the log" in text


def test_a_result_that_cannot_be_read_is_not_called_sealed(folder: Path) -> None:
    with LogWriter.reopen(folder) as writer:
        writer.append(AuditResult("claim", {"value": ATTACK}))
    text = text_of(folder)
    assert "sealed:" not in text
    assert re.search(r"Line \d+ should be a result of the tier claim , and cannot be read", text)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "estimate"}, "epsilon about 3.123, an estimate the claim allows"),
        (
            {"kind": "test", "quantity": "p-value", "value": 0.049961},
            "p-value 0.04997, against 0.05",
        ),
        ({"confidence": 0.9999999}, "with 99.99999 % confidence"),
        ({"confidence": 0.95}, "epsilon at least 3.123, with 95 % confidence"),
        ({"delta": 0.5}, "3.123 (one user is there or is not, at delta 0.5)"),
        ({"unit": "record"}, "3.123 (one record is there or is not, at delta 1e-05)"),
        ({"neighbours": "replace-one"}, "3.123 (one user is replaced by another, at delta 1e-05)"),
    ],
)
def test_a_number_stands_beside_what_it_is_of(
    folder: Path, change: dict[str, Any], said: str
) -> None:
    append_results(folder, [replace(CLAIM, **change)])
    assert said in text_of(folder)


def test_metrics_of_private_data_are_not_called_public(tmp_path: Path) -> None:
    records = ledgers.weighted()
    records.insert(-1, Evaluation(20, "private", {"accuracy": "0.9646017699115044"}))
    text = text_of(ledgers.written(tmp_path / "run", records))
    assert "accuracy 0.9646 (private data, without noise)" in text


@for_each("odd", ["\ud800", "\u202e", "\x00", "\x9b", "\u2066"])
def test_what_no_page_can_hold_or_what_turns_it_around_is_left_out(
    tmp_path: Path, odd: str
) -> None:
    records = ledgers.changed(ledgers.weighted(), RunOpen, system=f"name{odd}of")
    found = render(read(ledgers.written(tmp_path / "run", records)))
    assert "name\ufffdof" in found
    assert odd not in found
    assert found.encode()


@pytest.mark.filterwarnings("error")
@for_each("curve", [((1.0, 1.0),), ((5e-324, 5e-324), (1.0, 1.0)), ((0.5, 5e-324),)])
def test_absurd_curves_are_drawn_without_a_warning(curve: Any) -> None:
    assert figures.roc([("line 3", curve)]) is not None


def test_a_curve_begins_at_its_first_false_alarm() -> None:
    known = ((0.01, 0.1), (1.0, 1.0))
    assert figures.roc([("a", ((0.0, 0.9), *known))]) == figures.roc([("a", known)])


@pytest.mark.filterwarnings("error")
def test_a_claim_that_is_far_above_is_not_drawn() -> None:
    course = [SpendingPoint(10, 1.0), SpendingPoint(20, 2.0)]
    alone = figures.spending(course, None, 20, None)
    assert figures.spending(course, 1e308, 20, math.inf) == alone
    assert figures.spending(course, 3.0, 20, None) != alone
    assert figures.spending([*course, SpendingPoint(30, math.inf)], None, 30, None) != alone


def test_very_long_runs_are_looked_at_in_fewer_places(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(run_facts, "FULL_CURVE_ROUNDS", 10)
    monkeypatch.setattr(run_facts, "MAX_SPENDING_POINTS", 8)
    found = read(ledgers.written(tmp_path / "run", ledgers.weighted())).course
    assert [one.rounds for one in found] == [5, 10, 15, 20]


def test_the_page_replaces_a_page_and_nothing_that_a_run_left(folder: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from privplan.cli.main import app

    out = tmp_path / "report.html"
    for _ in range(2):
        assert CliRunner().invoke(app, ["report", str(folder), "-o", str(out)]).exit_code == 0
    log = folder / "log.jsonl"
    before = log.read_bytes()
    link = tmp_path / "link.html"
    link.symlink_to(log)
    for other in (log, link):
        result = CliRunner().invoke(app, ["report", str(folder), "-o", str(other)])
        assert result.exit_code == 2, result.output
        assert log.read_bytes() == before


def chromium() -> str:
    """Return the path of a browser; skip the test, and say so, where there is none."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium is installed, so no browser rendered the report")
    return found


def test_a_browser_renders_the_page(folder: Path, tmp_path: Path) -> None:
    append_results(folder, [CLAIM])
    page, shot = tmp_path / "report.html", tmp_path / "report.png"
    page.write_text(render(read(folder)))
    shared = [
        chromium(),
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
        *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=1000,3000",
        "--enable-logging=stderr",
    ]
    shown = subprocess.run(
        [*shared, f"--screenshot={shot}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert not [line for line in shown.stderr.splitlines() if "CONSOLE" in line], shown.stderr
    assert "Claimed, proven, measured" in shown.stdout
    import matplotlib.image

    pixels = matplotlib.image.imread(shot)
    assert pixels.shape[:2] == (3000, 1000)
    assert pixels[..., :3].std() > 0.05  # something is there


def test_the_page_has_every_row_with_what_it_rests_on_and_the_worst_in_its_verdict(
    tmp_path: Path,
) -> None:
    records = ledgers.weighted(rule="records", aggregation="masked", colluders=2, dropouts=1)
    folder = ledgers.written(tmp_path / "told", records)
    facts_of = read(folder)
    shown = page_of(folder).text
    words = {
        "silo": "a silo that holds nothing of the unit",
        "silo-with-records": "a silo that holds some of the unit",
        "server+2": "the server with 2 silos that hold nothing of the unit, and 1 of the others",
        "server+2-with-records": "the server with 2 silos that hold some of the unit, and 1 of the",
    }
    for row in facts_of.budget.rows:
        assert words.get(row.observer, "the") in shown
        if math.isfinite(row.total.upper):
            assert row.rests_on
            assert all(f"rests on: {one}" in " ".join(shown.split()) for one in row.rests_on)
    assert shown.count("N_u without any noise") == 2
    assert 'weighting = "uniform" needs no N_u' in shown
    style, sentence = page.verdict(facts_of)
    assert style == "good"
    assert "before a silo that holds nothing of the unit, of 3 observers asked for" in sentence
    assert "worse, and not asked for: no guarantee before a silo that holds some" in sentence
    configuration = {
        "privacy": {"observers": ["model"]},
        "security": {"aggregation": "masked", "colluders": 2, "dropouts": 1},
    }
    malicious = ledgers.part(server="malicious")
    asked = ledgers.opening(configuration=configuration, security=malicious)(records)
    other = read(ledgers.written(tmp_path / "model", asked)).budget.worst
    assert other is not None
    assert other.text.startswith("epsilon 3.848")


def test_numbers_of_uniform_weights_in_the_clear_rest_on_no_counts(folder: Path) -> None:
    shown = page_of(folder).text
    assert "N_u" not in shown
    assert "To rest on less" not in shown
