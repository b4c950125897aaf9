"""`privplan explain`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from privplan.cli.pages import topics

from ..cases import for_each
from .conftest import Refused, Run


def test_every_topic_of_the_help_exists(run: Run) -> None:
    general = {
        "sampling",
        "neighbours",
        "delta",
        "risk",
        "engines",
        "group",
        "shuffle",
        "plan",
        "run",
        "canaries",
    }
    general |= {"attack", "log", "statistics", "check", "causes", "opacus", "dp-sgd", "events"}
    general |= {"ledger", "libraries", "matrix", "models", "network", "scores", "tables", "words"}
    general |= {"plots"}
    assert set(topics.TOPICS) == general | {"uldp-fl", "flame", "disco", "fedpower", "delm"}
    helped = "".join(run("explain", "--help").out.split())  # a line may break at a hyphen
    assert ",".join(topics.TOPICS) in helped
    for name in topics.TOPICS:
        outcome = run("explain", name)
        assert outcome.code == 0
        assert name.upper() in outcome.out.splitlines()[0]
        assert "Source" in outcome.out
        assert max(map(len, outcome.out.splitlines())) <= 96
        assert outcome.out.isascii()
        assert run("explain", name, "--json").json["result"]["topic"] == name


def test_every_topic_has_a_file_and_every_file_a_topic() -> None:
    folder = Path(topics.__file__).parent
    assert sorted(path.stem for path in folder.glob("*.txt")) == sorted(topics.TOPICS)


def test_no_placeholder_is_left_open() -> None:
    for name in topics.TOPICS:
        assert re.search(r"\{[a-z]+\}", topics.page(name)) is None


def test_without_a_topic_they_are_listed(run: Run) -> None:
    outcome = run("explain")
    assert outcome.code == 0
    assert all(f"privplan explain {name}" in outcome.out for name in topics.TOPICS)


@for_each(
    ("typed", "meant"),
    [("samplin", "sampling"), ("Engines", "engines"), ("bandmff", "matrix"), ("rdpp", "engines")],
)
def test_an_unknown_topic_suggests_the_nearest(typed: str, meant: str, refused: Refused) -> None:
    assert f"next: privplan explain {meant}" in refused("explain", typed)


@for_each(
    ("topic", "names"),
    [
        ("attack", "membership canary"),
        ("plots", "plot chart svg"),
        ("group", "user users"),
        ("uldp-fl", "silo"),
        ("matrix", "bnb participation sensitivity"),
        ("sampling", "client-sampling"),
        ("engines", "profile privacy_profile"),
        ("events", "tuning"),
        ("libraries", "mlflow tensorboard wandb metrics run-log local-dp"),
        ("risk", "mu f-dp fdp"),
        ("matrix", "blt bandmf dp-ftrl tree banded correlated matrix-gaussian balls-in-bins"),
        ("engines", "rdp gdp zcdp renyi curves curve pld"),
        ("events", "partition selection best-of mixture gaussian_mixture"),
        ("sampling", "client-sampled with-replacement Poisson"),
        ("risk", "advantage tpr fpr bayes attack-risk"),
        ("neighbours", "neighbors"),
    ],
)
def test_a_name_from_elsewhere_leads_to_the_page_that_has_it(
    topic: str, names: str, run: Run
) -> None:
    for name in names.split():
        assert run("explain", name, "--json").json["result"]["topic"] == topic


def test_no_other_name_hides_a_topic_and_each_has_a_page() -> None:
    assert set(topics.TOPIC_BY_ALIAS) & set(topics.TOPICS) == set()
    assert set(topics.TOPIC_BY_ALIAS.values()) <= set(topics.TOPICS)


@pytest.mark.usefixtures("library")
def test_a_file_wins_over_another_name_of_a_topic(run: Run, event_file: str) -> None:
    Path("curve").write_text(Path(event_file).read_text())
    assert "How it follows" in run("explain", "curve").out


def test_a_word_like_nothing_leads_to_the_list(refused: Refused) -> None:
    for word in ("xyzzy", "noise", "salmon", "mean", "server", "tight"):
        assert refused("explain", word).endswith("next: privplan explain\n")


@pytest.mark.usefixtures("library")
def test_the_derivation_for_a_person(run: Run, event_file: str) -> None:
    text = run("explain", event_file, "--delta", "1e-6").out
    assert text.startswith("proves     epsilon 1.829 at delta 1e-06")
    assert (
        " 1. mechanism: Gaussian noise.\n    source:  A paper\n    given:   noise above 0" in text
    )
    assert " 2. composition: All rounds." in text
    assert "What it rests on" in text
    same = run("explain", event_file, "--delta", "1e-6", "--json").json
    assert same == run("account", event_file, "--delta", "1e-6", "--json").json


@pytest.mark.usefixtures("library")
def test_what_is_an_event_and_what_a_topic(run: Run, event_file: str, refused: Refused) -> None:
    Path("named-so").write_text(Path(event_file).read_text())
    assert "How it follows" in run("explain", "named-so").out
    assert "How it follows" in run("explain", "-", stdin=Path(event_file).read_text()).out
    assert "cannot be read" in refused("explain", "missing.json")
    Path("sampling").mkdir()
    assert "SAMPLING" in run("explain", "sampling").out
    assert "directory" in refused("explain", "./sampling")


def test_a_real_derivation_names_its_sources(run: Run, event_file: str) -> None:
    outcome = run("explain", event_file)
    assert outcome.code == 0, outcome.err
    assert "source:" in outcome.out
    assert "1e-05" in outcome.out


def test_the_page_of_a_run_names_who_sees_what_without_a_server(run: Run) -> None:
    page = " ".join(run("explain", "run").out.split())
    assert "without a server: model, peer or coordinator" in page
    assert "Under `shares` there is no server" in page
    assert "the shuffler sees who sends, and reads none of them" in page


def test_the_pages_name_every_observer_and_whom_each_system_judges() -> None:
    """Names come from the code, so that one that is added is missed here."""
    from privplan.fl.declarations.packages import built_in
    from privplan.fl.declarations.registry import keys_by_table
    from privplan.fl.observers.names import COLLUDING, MODEL, OBSERVERS

    keys = {key.name: key for key in keys_by_table()["privacy"]}
    for name in OBSERVERS:
        assert re.search(rf"\b{name}\b", keys["observer"].meaning), name
        assert re.search(rf"`{name}`", topics.page("run")), name
        if name not in (MODEL, "silo-with-records"):
            assert re.search(rf"\b{name}\b", topics.page("attack")), name
    for system in built_in().values():
        for name in system.observers:
            assert re.search(rf"\b{name}\b", keys["observers"].default), (system.name, name)
    assert COLLUDING in OBSERVERS


def test_the_page_of_a_run_names_every_file_that_is_left() -> None:
    from privplan.audit.residual import SEALED_REPORT
    from privplan.fl.log.hash_chain import LOG, SEALED

    left = topics.page("run").split("What a run leaves in DIR")[1].split("Before it begins.")[0]
    for name in (LOG, SEALED, SEALED_REPORT, "model.npz", "metrics.json", "config.toml"):
        assert f"\n  {name}" in left, name


def test_the_page_of_attacks_says_when_residual_is_taken() -> None:

    page = " ".join(topics.page("attack").split())
    assert "taken too unless tiers are named, where the sidecar holds such statistics" in page
    assert "minutes where users send messages through a shuffler" in page
    assert "changes only other cohorts than that of the canaries is invisible to claim and" in page


def test_whose_number_a_limit_and_a_bare_number_are_is_said(run: Run) -> None:
    said = " ".join(run("audit", "budget", "--help").out.replace("│", " ").split())
    assert "--limit and --quiet are about the epsilon before the observer of the claim" in said


def test_one_table_names_every_finding_once(run: Run) -> None:
    from privplan.audit import hazards
    from privplan.audit.check import causes
    from privplan.audit.findings import RULES

    out = run("explain", "causes").out
    page = " ".join(out.split())
    ids = {rule.id for rule in RULES}
    assert ids == {*causes.CAUSE_RULES, *hazards.LOG_RULES}
    row = r"^  ([a-z][a-z-]+[a-z]) +(?:error|warning|note|info)\.  "
    named = re.findall(row, out, re.MULTILINE)
    assert sorted(named) == sorted(ids)
    for rule in RULES:
        says = " ".join(rule.why.split())
        assert f"{says} [{', '.join(rule.needs)}]" in page, rule.id


def test_every_finding_has_a_page(run: Run) -> None:
    from privplan.audit.check.causes import CAUSE_RULES
    from privplan.audit.hazards import LOG_RULES

    for rule in (CAUSE_RULES["shuffled-loader"], LOG_RULES["weak-key"], LOG_RULES["torn-line"]):
        said = " ".join(run("explain", rule.id).out.split())
        assert rule.why in said
        assert (f"{rule.id}: a cause that `privplan check`" in said) == ("case" in rule.needs)


def test_a_folder_is_no_event_and_that_of_a_run_is_audited(refused: Refused) -> None:
    Path("empty").mkdir()
    assert "next: Name the file" in refused("explain", "empty")
    Path("ward").mkdir()
    Path("ward/log.jsonl").touch()
    assert "next: privplan audit budget ward" in refused("account", "ward")


def test_a_group_is_explained_as_it_is_accounted(run: Run, event_file: str) -> None:
    words = (event_file, "--group", "3", "--json")
    assert run("explain", *words).json == run("account", *words).json
