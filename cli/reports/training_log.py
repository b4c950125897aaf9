"""The log of an audit of a training, as `privplan audit log` reports on it."""

from __future__ import annotations

from typing import Final

from ..terminal.output import Report, plain, table

TRAINING_ASSUMPTIONS: Final = (
    "Whoever can write the whole log anew can choose plan and coins afterwards: that they are "
    "those of before is shown by the plan's head, if it was kept elsewhere before the training "
    "(--head).",
    "That no model was trained again after a look at it, nothing shows.",
    "The result was not derived again: privplan report does that, from coins and scores.",
)


def training_log(folder: str, expected_head: str | None) -> Report:
    """Return what the log of an audit of a training says, without what is sealed."""
    from ...audit.model_audits.audit_chain import MODEL, BadAuditLine
    from ...audit.model_audits.kept_audit import read_log

    try:
        log = read_log(folder, expected_head=expected_head)
    except BadAuditLine as error:
        return Report(
            result={
                "records": error.number - 1,
                "complete": False,
                "problem": error.reason,
                "first_bad": {"line": error.number, "reason": error.reason},
            },
            text=table([("FAILED", plain(f"line {error.number} is bad: {error.reason}"))]),
            number="",
            assumptions=TRAINING_ASSUMPTIONS,
            ok=False,
        )
    head, plan_head = log.lines[-1].hash, log.lines[0].hash
    trained = sum(line.kind == MODEL for line in log.lines)
    stated = log.lines[-1].record.get("result") if log.finished else None
    where = "none yet" if not log.finished else ("in the last line" if stated else "sealed")
    rows = [
        ("records", str(len(log.lines))),
        ("head", head),
        ("plan", plan_head),
        ("complete", "yes" if log.finished else f"no: {trained} of {log.plan.models} models"),
        ("result", where),
        ("checked", log.checked),
    ]
    if log.anchor is not None:
        rows.append(("anchor", f"line {log.anchor} has the expected head"))
    if log.failures:
        rows.append(("failures", f"{log.failures}: models kept their coins and seeds"))
    if log.resumed:
        rows.append(("resumed", f"{log.resumed}: finished models stayed, if nobody deleted them"))
    return Report(
        result={
            "records": len(log.lines),
            "resumed": log.resumed,
            "head": head,
            "plan_head": plan_head,
            "complete": log.finished,
            "problem": None,
            "first_bad": None,
            "anchor": log.anchor,
            "checked": log.checked,
            "stated": stated,
        },
        text=table(rows),
        number=head,
        assumptions=TRAINING_ASSUMPTIONS,
    )
