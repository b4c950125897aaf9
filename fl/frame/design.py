"""Which of several designs a system chose, and why: a choice by public facts alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Design:
    """The name of a design, such as `one-shot`, and the reason in one sentence."""

    name: str
    reason: str
