"""Facts while conclusions are drawn from them: typed views, derivations, contradictions."""

from __future__ import annotations

from collections.abc import Mapping

from .agreement import statement
from .fact import Contradiction, Fact
from .run_description import Phase


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
        self.facts[key] = Fact(value, "derived", f"{because}, which agrees with {stated.source}")

    def contradict(self, key: str, says: str, *keys: str) -> None:
        """Name a contradiction, with the facts that it is between."""
        sources = ", ".join(statement(name, self.facts[name]) for name in keys)
        self.contradictions.append(Contradiction(key, f"{says}: {sources}."))
