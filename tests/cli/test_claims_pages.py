"""Pages of `explain` on published methods: their numbers are those of tables and benches."""

from __future__ import annotations

import json
import math
import re

import pytest

import privplan as pp
from privplan.accountant import rounding
from privplan.accountant.claims import table as tables
from privplan.accountant.claims.table import Claim
from privplan.cli.pages import topics

from ..cases import for_each
from ..source_tree import ROOT

SETTINGS = {
    # What a page says of its setting, and is no row of the table.
    "uldp-fl": ("1e-5", "12.26", "9.53"),  # these two: tests/accountant/test_sensitivity_coalition
    "flame": ("0.01", "1.1", "1,000", "7,850", "2,000"),
    "disco": ("1e-5",),
    "fedpower": ("1e-5", "9.2e-4"),
    "delm": ("1e-5", "0.6", "1.2", "1.5", "1.0", "4.0"),  # odds e^(3/200), and its example
}


FLAME_PADDING = (
    ("99", "4.732", "0.666", "2.49"),
    ("333", "0.7776", "0.201", "21.20"),
    ("1,000", "0.3953", "0.177", "54.06"),
    ("2,000", "0.3035", "0.192", "80.13"),
)
"""What its page says that `padded_to` costs: the noise, that of a mean in clips, the shuffler's."""

FLAME_ORDER = {"4.57", "3.5", "0.355", "0.169", "0.177", "0.211"}
"""What its page says of who lies above whom: the epsilons, and the noise of a mean in clips."""


def test_the_page_of_flame_says_why_the_order_turns() -> None:
    """The noise of a coordinate's mean: b sqrt(2 n_p) over its senders, in clips."""
    kept = json.loads((ROOT / "bench" / "flame_headlines.json").read_text())
    equal = {row["way"]: row for row in kept["rows"] if row["group"] == "equal proven"}
    tried = json.loads((ROOT / "bench" / "flame_accuracy.json").read_text())["points"]
    best = {
        row["way"]: row
        for row in tried
        if row["proven"] == 3.5 and row["padded_to"] in (0, row.get("users", 1_000))
    }
    spread = math.sqrt(2.0 * 1_000)
    noise = {
        f"{2.0 / equal['double']['epsilon0'] * spread / (1_000 * 13 / 650):.3f}",
        f"{2.0 / equal['simple']['epsilon0'] * spread / 1_000:.3f}",
        f"{best['double']['noise_multiplier'] * spread / 100:.3f}",
        f"{best['simple']['noise_multiplier'] * spread / 1_000:.3f}",
    }
    assert noise == FLAME_ORDER - {"4.57", "3.5"}
    most = max(equal[way]["proven_all"] for way in ("double", "simple"))
    assert 0.0 <= 4.57 - most < 0.01
    page = " ".join(topics.page("flame").split())
    assert all(number in page for number in FLAME_ORDER)
    better = {way: f"{best[way]['mean']:.2f}".removeprefix("0") for way in ("double", "simple")}
    assert f"SS-Double reaches {better['double']} and SS-Simple {better['simple']}" in page


@pytest.mark.slow
@for_each("row", FLAME_PADDING, ids=lambda row: row[0])
def test_the_page_of_flame_says_what_padding_costs(row: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    padded_to = int(row[0].replace(",", ""))
    plan = pp.plan_run(
        {
            "run": {"system": "flame-double", "rounds": 5},
            "data": {"name": "digits", "users": 1_000},
            "privacy": {"epsilon": 3.5, "delta": 5e-6},
            "flame": {"chosen": 65, "padded_to": padded_to, "transport": "ideal"},
        }
    )
    assert plan.noise_multiplier is not None
    (shuffler,) = (each for each in plan.observers if each.observer == "shuffler")
    assert rounding.up(plan.noise_multiplier) == row[1]
    assert f"{plan.noise_multiplier * math.sqrt(2.0 * padded_to) / 100:.3f}" == row[2]
    assert 0.0 <= float(row[3]) - shuffler.epsilon.upper < 0.01
    assert " ".join(row) in " ".join(topics.page("flame").split())


def shown(claim: Claim) -> set[str]:
    """Return every way in which the pages may write the numbers of a row."""
    texts = {claim.printed, *(str(part) for part in re.findall(r"[\d.]+", claim.setting))}
    for digits in (2, 3, 4, 5):
        texts.add(f"{claim.claimed:.{digits}g}")
        texts.add(f"{float(f'{claim.claimed:.{digits}g}'):,.0f}")
        if claim.proven is not None:
            texts.add(rounding.up(claim.proven, digits))
        if claim.lower is not None:
            texts.add(rounding.down(claim.lower, digits))
    texts |= set(re.findall(r"\d[\d,.]*\d", claim.why))
    return texts


def headlines_of_disco() -> set[str]:
    """Return the measured numbers of shares that its page may say, as it writes them."""
    held = json.loads((ROOT / "bench" / "disco_headlines.json").read_text())
    errors = held["reconstruction"]
    sizes = {f"{each['rms'] / each['magnitude']:.1e}" for each in errors}
    sizes |= {f"{each['published'] / each['magnitude'] * 1e8:g}e-8" for each in errors}
    sizes.add(f"{max(each['largest'] / each['magnitude'] for each in errors):.1e}")
    for each in held["searches"]:
        sizes |= {f"{each['differences']:,}", rounding.down(each["advantage"], 2)}
    parts = {
        each["numbers_that_differ"] / each["numbers"]
        for each in held["float_totals"]
        if each["parties"] == 3
    }
    return sizes | {f"{100.0 * part:.1f}" for part in (min(parts), max(parts))}


def headlines_of_flame() -> set[str]:
    """Return what its page may say of claims at equal epsilons, as it writes it."""
    held = json.loads((ROOT / "bench" / "flame_headlines.json").read_text())
    said = {f"{gap['printed']:g}" for gap in held["gaps"]}
    for row in held["rows"]:
        said.add(f"{row['accuracy']:.2f}")
        if "epsilon0" in row:
            said |= {f"{row['epsilon0']:g}", f"{row['claimed']:.3g}"}
            said.add(rounding.up(float(row["proven"]), 4))
    return said


@for_each(
    "system",
    [
        pytest.param(system, marks=() if system == "disco" else pytest.mark.slow)
        for system in tables.SYSTEMS
    ],
)
def test_every_number_of_a_page_is_in_the_table(system: str) -> None:
    assert topics.SUMMARIES[system]
    text = topics.page(system)
    known = set(SETTINGS[system])
    for claim in tables.table(system):
        known |= shown(claim)
    for line in tables.noise(system):
        known |= {rounding.up(line.deviation, digits) for digits in (2, 3, 4)}
        known |= {f"{line.deviation:.{digits}g}" for digits in (2, 3, 4)}
        known |= {rounding.up(line.proven, digits) for digits in (2, 3, 4)}
    if system == "disco":
        known |= headlines_of_disco()
    if system == "flame":
        known |= {number for row in FLAME_PADDING for number in row} | FLAME_ORDER
        known |= headlines_of_flame()
    body = re.sub(r"arXiv [\d.]+", "", text)
    numbers = re.findall(
        r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)", body
    )
    assert numbers
    assert [number for number in numbers if number not in known] == []


@for_each("system", tables.SYSTEMS)
def test_a_page_is_a_page(system: str) -> None:
    text = topics.page(system)
    lines = text.splitlines()
    assert lines[0].startswith(system.upper())
    assert max(map(len, lines)) <= 96
    assert text.isascii()
    assert "Source" in text
    assert "What to do instead" in text
    assert f"privplan claims {system}" in text
