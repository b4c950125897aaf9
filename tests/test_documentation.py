"""What README and the pages of the documentation show is what happens, and their links lead on."""

from __future__ import annotations

import doctest
import math
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

import privplan as pp
from privplan.cli.main import app

from .cases import for_each

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
MOST_WORDS: Final = 900
"""Of README, without blocks and tables."""

ENCRYPTED: Final = "run sealed.toml --out sealed"
"""The command that takes long: Paillier with a key of 2,048 bits."""

RUN_AND_AUDIT: Final = "docs/tutorials/run-and-audit.md"


RISKS: Final = PAGES["docs/how-to/choose-epsilon.md"]

MOST_LINES: Final = 60
"""Of the verifier that needs nothing but Python."""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)


def examples(page: str) -> list[str]:
    return [block for block in blocks(page, "python") if ">>> " in block]


def commands(page: str) -> dict[str, str]:
    """Return what a page shows of each command, by its words after `privplan`."""
    shown = [
        command
        for block in blocks(page, "console")
        for command in re.split(r"^\$ privplan ", block, flags=re.M)[1:]
    ]
    by_words = dict(command.split("\n", 1) for command in shown)
    assert len(by_words) == len(shown)
    return by_words


def part(words: str) -> str:
    """Return which commands of a page one goes with: those of a run stand on one another."""
    if words == ENCRYPTED:
        return "sealed"
    return "ward" if "ward" in words else "alone"


def write_files(page: str, folder: Path) -> None:
    """Write the files of a page into a folder: of a block, the last that is named before it."""
    for before, kind, content in re.findall(
        r"(.*?)^```(json|toml)\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE
    ):
        names = re.findall(rf"`(\w+\.{kind})`", before)
        if names:
            (folder / names[-1]).write_text(content)


def without_chance(printed: str) -> str:
    """Return what a command printed, without what another run would print differently."""
    masked = re.sub(r"\b[0-9a-f]{16,64}\b", "#", printed)
    return re.sub(r"^test .*$", lambda line: re.sub(r"\d+\.\d+", "#", line[0]), masked, flags=re.M)


def parts() -> Iterator[object]:
    for page in PAGES:
        for name in dict.fromkeys(part(words) for words in commands(page)):
            marks = pytest.mark.slow if name == "sealed" else ()
            yield pytest.param(page, name, marks=marks, id=f"{page}-{name}")


def test_readme_is_one_page() -> None:
    prose = re.sub(r"^```.*?^```", "", PAGES["README.md"], flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^( {4}|\|).*$", "", prose, flags=re.MULTILINE)
    assert len(prose.split()) <= MOST_WORDS


def test_much_is_shown_and_run() -> None:
    assert sum(len(commands(page)) for page in PAGES) >= 12
    assert sum(len(examples(page)) for page in PAGES) >= 10
    assert ENCRYPTED in commands(RUN_AND_AUDIT)


@for_each("page", [page for page in PAGES if examples(page)], items=3)
def test_examples_in_python_are_true(page: str) -> None:
    for block in examples(page):
        example = doctest.DocTestParser().get_doctest(block, {}, page, page, 0)
        assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize(("page", "name"), list(parts()))
def test_commands_print_what_is_shown(
    page: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(page, tmp_path)
    chosen = {words: printed for words, printed in commands(page).items() if part(words) == name}
    for words, printed in chosen.items():
        done = CliRunner().invoke(app, shlex.split(words))
        # A claim that a page shows to be false fails its check.
        assert done.exit_code == (1 if "verdict    FALSE" in printed else 0), words
        assert without_chance(done.stdout + done.stderr) == without_chance(printed)


def test_what_an_encrypted_run_promises_is_shown(tmp_path: Path) -> None:
    """Its numbers, for each observer, from the plan alone: the run itself is in the slow tests."""
    from privplan.accountant import rounding
    from privplan.fl.running.preparation import prepare
    from privplan.fl.settings.toml_file import parse

    write_files(RUN_AND_AUDIT, tmp_path)
    guarantees = prepare(
        parse((tmp_path / "sealed.toml").read_bytes(), "sealed.toml")
    ).plan.guarantees
    numbers = [guarantee.epsilon.upper for guarantee in guarantees.values()]
    promised = [rounding.up(upper) for upper in numbers if math.isfinite(upper)]
    assert len(promised) < len(numbers)  # a coalition is promised nothing
    shown = re.findall(r"epsilon ([\d.]+)", commands(RUN_AND_AUDIT)[ENCRYPTED])
    assert sorted(shown) == sorted(promised)


@for_each("page", list(PAGES))
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", PAGES[page])
    local = [link for link in links if not link.startswith(("http", "mailto:"))]
    folder = (ROOT / page).parent
    assert [link for link in local if not (folder / link).exists()] == []


def test_every_page_stands_in_the_table_of_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")]
    assert [page for page in pages if f" {page}\n" not in contents] == []


def test_the_verifier_of_a_log_is_short_and_finds_what_was_changed(tmp_path: Path) -> None:
    verifier = runpy.run_path(str(ROOT / "docs" / "verify_log.py"))
    assert len((ROOT / "docs" / "verify_log.py").read_text().splitlines()) <= MOST_LINES
    plan = pp.TrainingPlan(
        steps=3, noise_multiplier=1.0, clip=1.0, delta=1e-5, rate=0.1, rate_source="said", divisor=9
    )
    with pp.RunLog(tmp_path / "run", plan) as log:
        for _ in range(plan.steps):
            with log.step():
                pass
    verify, file = verifier["verify"], tmp_path / "run" / "log.jsonl"
    whole = file.read_text()
    lines = whole.splitlines(keepends=True)
    kept = verify(tmp_path / "run")
    verified = CliRunner().invoke(app, ["audit", "log", str(tmp_path / "run"), "-q"])
    assert kept["head"] == verified.stdout.strip()
    assert kept["lines"] == len(lines)
    assert verify(tmp_path / "run", kept["head"]) == kept
    for changed in (
        whole.replace('"1e-05"', '"1e-06"', 1),
        "".join(lines[1:]),
        "".join([*lines[:1], *lines[2:]]),
        "".join([lines[0], *lines[2:], lines[1]]),
        whole.rstrip("\n"),
        whole.replace(":", ": ", 1),
    ):
        assert changed != whole
        file.write_text(changed)
        with pytest.raises(ValueError, match=r"line|head"):
            verify(tmp_path / "run", kept["head"])
    file.write_text("".join(lines[:-1]))
    verify(tmp_path / "run")  # what is cut off at the end leaves no trace in the chain
    with pytest.raises(ValueError, match="head"):
        verify(tmp_path / "run", kept["head"])


@for_each("epsilon, found", re.findall(r"^\| ([\d.]+) \| (\d+) in 100 members \|$", RISKS, re.M))
def test_what_an_epsilon_means_in_members_is_rounded_up(epsilon: str, found: str) -> None:
    noise = pp.calibrate(
        lambda noise: pp.events.Gaussian(noise), epsilon=float(epsilon), delta=1e-6
    )
    reached = pp.risk(pp.events.Gaussian(noise.value), fpr=0.01).tpr
    assert int(found) == math.ceil(100 * reached.upper)
