"""Section `logs`: what audits, reports and forecasts say of stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any, Final

from . import command, runs_stored
from .golden import Case

COUNT: Final = 200
"""At most: there is one case for each stored run."""

_UNREAD: Final = ("script", "style", "svg")
"""Elements of a page whose text is no answer: plots are drawn by another library."""


def cases() -> Iterator[Case]:
    """Yield a case for each stored run."""
    for name, how in runs_stored.about()["runs"].items():
        yield Case(name, {"run": name, "signed": how["signed"]})


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each command that reads a run says of it."""
    from pathlib import Path

    here = Path.cwd()
    folder = runs_stored.unpack(asked["run"], here / "run")
    key = ["--public-key", "run/public.pem"] if asked["signed"] else []
    commands = {
        "log": ["audit", "log", "run", "--json", *key],
        "budget": ["audit", "budget", "run", "--json", *key],
        "budget text": ["audit", "budget", "run", *key],
        "report": ["report", "run", "-o", "page.html", *key],
        "forecast": ["run", "run/config.toml", "--dry-run", "--json"],
    }
    if (folder / "sealed.jsonl").exists():
        commands["sealed"] = ["audit", "budget", "run", "--sealed", "--json", *key]
    if (folder / "models").exists():
        commands["models"] = ["audit", "log", "run", "--models", "run/models", *key]
    answers: dict[str, Any] = {}
    for name, words in commands.items():
        answers[name] = command.outcome(words, here)
    # What audits say with and without the sidecar is mostly the same: only the rest is kept twice.
    sealed = answers.get("sealed")
    if sealed is not None:
        answers["sealed"] = _beyond(answers["budget"], sealed)
    page = here / "page.html"
    answers["page"] = page_text(page.read_text()) if page.exists() else None
    return answers


def page_text(page: str) -> list[str]:
    """Return the texts of a page, without plots, in order."""
    reader = _Texts()
    reader.feed(page)
    return reader.texts


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._unread = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        del attrs
        self._unread += tag in _UNREAD

    def handle_endtag(self, tag: str) -> None:
        self._unread -= tag in _UNREAD

    def handle_data(self, data: str) -> None:
        if not self._unread and data.strip():
            self.texts.append(" ".join(data.split()))


def _beyond(usual: Any, other: Any) -> Any:
    """Return of another answer what differs from the usual one; "same" where nothing does."""
    if usual == other:
        return "same"
    if isinstance(usual, dict) and isinstance(other, dict) and usual.keys() == other.keys():
        return {key: _beyond(usual[key], other[key]) for key in other if usual[key] != other[key]}
    return other
