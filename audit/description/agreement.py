"""When two facts about one key agree, and which of them is kept.

And all facts while conclusions are drawn from them: typed views, derivations, contradictions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from .printed_number import PrintedNumber
from .run_description import STRENGTH, Contradiction, ExtraRelease, Fact, Phase

ALIASES: Final = {
    "flwr": "flower",
    "tf_privacy": "tensorflow_privacy",
    "tensorflow_privacy": "tensorflow_privacy",
    "dp_accounting": "dp_accounting",
    "jax_privacy": "jax_privacy",
    "opake_accounting": "opake",
}


def named_library(text: str | None) -> tuple[str, tuple[int, ...] | None]:
    """Return the name of a library and its version, as far as a free text says them.

    >>> named_library("Opacus v1.4.0"), named_library("tf-privacy")
    (('opacus', (1, 4, 0)), ('tensorflow_privacy', None))
    """
    if not text:
        return "", None
    words = re.match(r"\s*([A-Za-z][A-Za-z_\- ]*?)[\s=v@]*(\d+(?:\.\d+)*)?\s*$", text)
    name = (words[1] if words else text).strip().lower().replace("-", "_").replace(" ", "_")
    digits = re.search(r"\d+(?:\.\d+)*", text)
    version = None if digits is None else tuple(int(part[:9]) for part in digits[0].split("."))
    return ALIASES.get(name, name), version


def same_library(left: str, right: str) -> bool:
    """Return whether two texts name one library, of versions that can be one.

    >>> same_library("opacus 1.5", "Opacus"), same_library("opacus 1.5", "opacus 1.5.2")
    (True, True)
    >>> same_library("opacus 1.5", "opacus 1.4"), same_library("opacus", "flower")
    (False, False)
    """
    (name, version), (other, other_version) = named_library(left), named_library(right)
    shared = min(len(version or ()), len(other_version or ()))
    return name == other and (version or ())[:shared] == (other_version or ())[:shared]


def precision(text: str) -> int:
    """Return how many parts of a version a text says.

    >>> precision("opacus"), precision("opacus 1.5")
    (0, 2)
    """
    return len(named_library(text)[1] or ())


ROUNDING: Final = 1e-9
"""Two floats that are nearer than this, relatively, are the same number."""


LIBRARY: Final = "claim.library"


def agree(left: Fact, right: Fact, key: str = "") -> bool:
    """Return whether two facts can both be true: equal, or one of them a rounding of the other.

    1.28 as it is printed and 1.2799 as it is read agree; the integers 1000 and 1001 do not.  Of
    the `key` of a library, its name and what is said of its version agree.
    """
    a, b = left.value, right.value
    if key == LIBRARY and isinstance(a, str) and isinstance(b, str):
        return same_library(a, b)
    slack = left.half_unit + right.half_unit
    if isinstance(a, PrintedNumber) and isinstance(b, PrintedNumber):
        return near(a.value, b.value, a.half_unit + b.half_unit)
    if isinstance(a, float) or isinstance(b, float):
        if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
            return False
        return near(float(a), float(b), slack)
    if _is_phases(a) and _is_phases(b):
        return _same_phases(a, b, slack)
    return a == b


def near(a: float, b: float, slack: float = 0.0) -> bool:
    """Return whether two numbers differ by no more than `slack` and the rounding of floats."""
    return abs(a - b) <= slack * (1.0 + ROUNDING) + ROUNDING * max(abs(a), abs(b))


def _is_phases(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(row, Phase) for row in value)


def _same_phases(left: object, right: object, slack: float) -> bool:
    assert isinstance(left, tuple)
    assert isinstance(right, tuple)
    return len(left) == len(right) and all(
        math.isclose(a.noise_multiplier, b.noise_multiplier, rel_tol=1e-3)
        and near(a.rate, b.rate, slack)
        and a.steps == b.steps
        for a, b in zip(left, right, strict=True)
    )


def settled(key: str, facts: Iterable[Fact]) -> tuple[Fact, list[Contradiction]]:
    """Return the fact that stands for a key, and a contradiction for each that cannot be true.

    The strongest provenance stands.  Among facts that agree with it the most precise is kept, so
    that 1.2799 of a file replaces a stated 1.28, and `opacus 1.5` stands before `opacus`; only a
    claim stays as it is stated.  What is assumed contradicts nothing, and no more does the word
    `unknown`.
    """
    candidates = sorted(set(facts), key=_order)
    informative = [fact for fact in candidates if fact.value != "unknown"] or candidates
    strongest = informative[0]
    said = [fact for fact in informative[1:] if fact.provenance != "assumed"]
    others = [fact for fact in said if not agree(strongest, fact, key)]
    agreeing = [fact for fact in said if agree(strongest, fact, key)]
    kept = strongest
    if not isinstance(strongest.value, PrintedNumber):
        kept = min((strongest, *agreeing), key=lambda fact: _vagueness(key, fact))
    return kept, [
        Contradiction(key, f"{statement(key, strongest)} and {statement(key, other)} differ.")
        for other in others
    ]


def _vagueness(key: str, fact: Fact) -> float:
    if key == LIBRARY and isinstance(fact.value, str):
        return -precision(fact.value)
    return fact.half_unit


def _order(fact: Fact) -> tuple[int, float, str, str]:
    # The last two make the answer independent of the order in which sources are given.
    precision = fact.value.half_unit if isinstance(fact.value, PrintedNumber) else fact.half_unit
    return STRENGTH.index(fact.provenance), precision, fact.source, repr(fact.value)


def statement(key: str, fact: Fact) -> str:
    """Return a key with its value and where that comes from.

    >>> statement("schedule.steps", Fact(3516, "stated", "run.toml"))
    '`schedule.steps` = 3,516 (stated, run.toml)'
    """
    source = f", {fact.source}" if fact.source else ""
    return f"`{key}` = {shown(fact.value)} ({fact.provenance}{source})"


def shown(value: object) -> str:
    """Return a value of a fact in words.

    >>> shown(PrintedNumber(1.19, 0.005)), shown(60000), shown(256 / 60000), shown("poisson")
    ('1.19', '60,000', '0.004267', 'poisson')
    """
    if isinstance(value, PrintedNumber):
        return f"{value.value:.12g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        short = f"{value:.4g}"
        return short if "e" not in short or abs(value) < 1.0 else f"{value:,.0f}"
    if isinstance(value, tuple):
        rows = [_row(row) for row in value[:3]]
        return "[" + ", ".join(rows + ["..."] * (len(value) > 3)) + "]"
    return str(value)


def _row(row: object) -> str:
    if isinstance(row, Phase):
        return f"[{row.noise_multiplier:g}, {row.rate:g}, {row.steps}]"
    if isinstance(row, ExtraRelease):
        return f"{row.count} x {row.what}"
    return str(row)


class WorkingFacts:
    """The facts of a run, to which derived ones are added; none is replaced by a weaker one."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self.facts: dict[str, Fact] = dict(facts)
        self.contradictions: list[Contradiction] = []

    def __contains__(self, key: str) -> bool:
        return key in self.facts

    def number(self, key: str) -> float | None:
        """Return a real number; None where it is not known."""
        value = self.facts[key].value if key in self.facts else None
        return float(value) if isinstance(value, (int, float)) else None

    def count(self, key: str) -> int | None:
        """Return a count; None where it is not known."""
        value = self.facts[key].value if key in self.facts else None
        return value if isinstance(value, int) else None

    def word(self, key: str, otherwise: str) -> str:
        """Return a word, or `otherwise` where it is not known."""
        value = self.facts[key].value if key in self.facts else None
        return value if isinstance(value, str) else otherwise

    def phases(self) -> tuple[Phase, ...]:
        """Return the phases of the schedule; none where it has none."""
        value = self.facts["schedule.phases"].value if "schedule.phases" in self.facts else ()
        return value if isinstance(value, tuple) else ()

    def half_unit(self, key: str) -> float:
        """Return how far the last printed digit leaves a key's number open."""
        return self.facts[key].half_unit if key in self.facts else 0.0

    def derive(self, key: str, value: object, because: str, half_unit: float = 0.0) -> None:
        """Add a fact that follows from others; what is known already stays."""
        self.facts.setdefault(key, Fact(value, "derived", because, half_unit))

    def refine(self, key: str, value: float, because: str) -> None:
        """Put the exact number, which is printed as the stated one, in its stead."""
        stated = self.facts[key]
        says = f"{because}, which agrees with {stated.source}"
        self.facts[key] = Fact(value, "derived", says, stated.half_unit)

    def contradict(self, key: str, says: str, *keys: str) -> None:
        """Name a contradiction, with the facts that it is between."""
        sources = ", ".join(statement(name, self.facts[name]) for name in keys)
        self.contradictions.append(Contradiction(key, f"{says}: {sources}."))
