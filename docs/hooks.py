"""Pages of the site that follow from the installed package, and links that leave the site.

Each thing is said once: the start page is README, and the pages of `explain`, the help of commands
and the list of what Python offers are taken from the package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.structure.files import File, Files

import privplan
from privplan.cli.main import app
from privplan.cli.pages import topics

ROOT = Path(__file__).resolve().parents[1]
LEAVING = re.compile(r"\[([^\]]*)\]\((?:\.\./)+([\w./-]+?)\)")
"""A link to a file of the repository that is no page: group 2 is its path."""


def on_files(files: Files, config: Any) -> Files:
    """Add the start page, and a page for each topic of `explain`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start = readme.replace("](docs/", "](")
    start = re.sub(r"\[([\w.]+)\]\(([A-Z][\w.]*)\)", r"`\2`", start)
    made = {"index.md": start}
    for topic in topics.TOPICS:
        made[f"reference/explain/{topic}.md"] = f"# {topic}\n\n```text\n{topics.page(topic)}\n```\n"
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in what follows from the package, and name files that are no pages by their paths."""
    source = page.file.src_uri
    if source == "reference/commands.md":
        markdown = markdown.replace("{commands}", "\n\n".join(_helps()))
    elif source == "reference/python.md":
        names = [name for name in privplan.__all__ if name not in ("errors", "events")]
        markdown = markdown.replace("{python}", "\n\n".join(f"::: privplan.{n}" for n in names))
    elif source == "reference/explain.md":
        listed = "\n".join(f"- [{name}](explain/{name}.md)" for name in topics.TOPICS)
        markdown = markdown.replace("{topics}", listed)
    elif source == "reference/log.md":
        verifier = (ROOT / "docs" / "verify_log.py").read_text(encoding="utf-8")
        markdown = markdown.replace("{verify_log}", verifier.rstrip())
    folder = (ROOT / "docs" / source).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link[0].split("](")[1][:-1]).resolve()
        is_page = target.is_relative_to(ROOT / "docs")
        return link[0] if is_page else f"{link[1]} (`{target.relative_to(ROOT)}`)"

    return LEAVING.sub(named, markdown)


def _helps() -> list[str]:
    """Return what each command prints for `--help`, as sections."""
    sections: list[str] = []

    def add(command: Any, words: str, parent: Any = None) -> None:
        context = command.context_class(command, info_name=words, parent=parent)
        context.terminal_width = 92
        sections.append(f"## {words}\n\n```text\n{command.get_help(context)}\n```")
        for name, child in getattr(command, "commands", {}).items():
            add(child, f"{words} {name}")

    add(typer.main.get_command(app), "privplan")
    return sections
