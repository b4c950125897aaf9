"""Measurements for the tests of results in a log."""

from __future__ import annotations

from dataclasses import replace

from privplan.audit.measurement import Measurement

MEASURED = Measurement(
    tier="claim",
    what="the claimed mechanism",
    value=7.25,
    kind="lower-bound",
    contradicted=False,
    proves="The mechanism is no better than that.",
    observer="model",
    unit="user",
    neighbours="add-remove",
    claimed=8.0,
    delta=1e-5,
    assumes=("canaries are users",),
    sample={"canaries": 1000, "threshold": 0.1 + 0.2, "view": "model"},
    curves={"trade-off": ((0.0, 1.0), (1 / 3, 0.25), (1.0, 0.0))},
)


MEMBERSHIP = replace(MEASURED, tier="membership", kind="estimate", quantity="AUC", value=0.61)
