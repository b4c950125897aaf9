"""Templates of pages, filled so that no text of a log can be anything but text."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from ...accountant.errors import MissingExtra

STYLE: Final = "style.css"

_UNSHOWN: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ud800-\\udfff]"
)
"""Characters that are replaced: controls, marks of direction, and lone surrogates."""


def filled(template: str, **values: object) -> str:
    """Return a page from a template of this package, which has the common style.

    Raises `MissingExtra` where jinja2 is absent.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise MissingExtra(
            "A report needs the package jinja2, which is not installed.",
            "It fills the page.",
            'Install the extra: pip install "privplan[report]".',
        ) from None
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    folder = files(__package__)
    source = folder.joinpath(template).read_text(encoding="utf-8")
    style = folder.joinpath(STYLE).read_text(encoding="utf-8")
    page = environment.from_string(source).render(style=style, **values)
    return _UNSHOWN.sub("\ufffd", page)
