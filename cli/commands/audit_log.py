"""`privplan audit log`: is the log of a run whole, in order and unchanged?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..inputs import anchors, options
from ..inputs.request import OutputOptions, takes
from ..reports.training_log import training_log
from ..terminal.output import Report, plain, table

if TYPE_CHECKING:
    from ...audit.edits.replay import Replay
    from ...audit.findings import Finding
    from ...audit.reconciliation import Reconciliation
    from ...audit.verify import Verification

Models = Annotated[
    str | None,
    options.optional(
        "DIR",
        "Folder of every released model (save_models): each must be what its round released.",
        "--models",
    ),
]
Against = Annotated[
    list[str] | None,
    options.optional(
        "DIR",
        "Run folder of a silo, once for each: DIR is then the server's, of one network.",
        "--against",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the head alone.")]

LOG_ASSUMPTIONS: Final = (
    "A line that was removed, moved, repeated, inserted or edited breaks the chain of hashes. "
    "Whoever wrote the whole end of the log anew, or cut it off between two lines, is found only "
    "by a head that was kept elsewhere (--head) or by a signature (--public-key).",
    "The log says what its writer wrote. FAILED stands next to what no run writes: rounds that are "
    "cut out, models and streams that do not join, keys taken out of the configuration. Whether "
    "the rest is what it makes, and adds up to what is promised, is the question of "
    "`privplan audit budget`.",
)

_CONFIGURED: Final = (
    "A run writes its whole configuration into the first line, and keeps its file next to the log."
)
_TAKE_COPY: Final = "Take a copy that nobody has touched."


@options.option_group
class LogRequest(OutputOptions, anchors.AnchorOptions):
    """A run, and what its log must agree with."""

    folder: options.Folder
    models: Models = None
    against: Against = None
    quiet: Quiet = False


@takes(LogRequest)
def log(_: typer.Context, asked: LogRequest) -> Report:
    """Check the log of a run, and name the first bad line.

    Prints the head, the hash of the last line: keep it elsewhere, and nothing before it can be
    changed or taken away unnoticed.  Leaves with exit code 1 if a line is bad or torn, if lines
    contradict each other, their configuration or the files next to them, if no run was begun, or if
    --head, --public-key, --models or --against do not hold; that a run is not closed is no failure.
    What each check excludes: privplan explain log.  Of a folder of privplan.audit_model the plan's
    head is printed too.
    """
    from ...audit.edits import edits_of
    from ...audit.edits.replay import replay
    from ...audit.model_audits.audit_chain import is_model_audit
    from ...audit.verify import verify

    folder, models = asked.folder, asked.models
    if is_model_audit(folder) and not (models or asked.against or asked.public_key):
        return training_log(folder, anchors.normalised_head(asked.head))
    verified = verify(folder, **asked.expected())
    # Contradictions are looked for in whole chains only: a broken one is refused already.
    whole = verified.first_bad is None and verified.opened is not None
    edits = (*edits_of(folder), *_configured(verified, folder)) if whole else ()
    replayed = replay(folder, models) if whole and models is not None else None
    together = _together(folder, asked.against) if whole and asked.against else None
    return Report(
        result={
            **result(verified, edits),
            "models": None if replayed is None else replayed.to_json(),
            **({} if together is None else {"network": _network(together)}),
        },
        text=table([*_rows(verified, edits), *_models(replayed), *_together_rows(together)]),
        number=verified.head or "",
        assumptions=LOG_ASSUMPTIONS,
        warnings=_warnings(verified, anchored=asked.head is not None),
        ok=verified.ok
        and not verified.unbegun
        and not edits
        and (replayed is None or replayed.ok)
        and (together is None or together.ok),
        is_verdict=True,
    )


def _together(folder: str, silos: Sequence[str]) -> Reconciliation:
    from ...audit.reconciliation import reconcile

    return reconcile(Path(folder), [Path(silo) for silo in silos])


def _network(together: Reconciliation) -> dict[str, object]:
    return {
        "silos": list(together.silos),
        "spent": together.spent,
        "released": together.released,
        "problems": list(together.problems),
        "notes": list(together.notes),
        "fullest": str(together.fullest),
    }


def _together_rows(together: Reconciliation | None) -> list[tuple[str, str]]:
    """Return what the logs of several parties say together."""
    if together is None:
        return []
    spent = f"{together.spent} rounds were begun somewhere, and {together.released} released"
    return [
        ("parties", f"the server, {plain(', '.join(together.silos))}"),
        ("spent", f"{spent}; what they cost: privplan audit budget {together.fullest}"),
        *(("note", plain(each)) for each in together.notes),
        *(("FAILED", f"parties: {plain(each)}") for each in together.problems),
    ]


def result(verified: Verification, edits: Sequence[Finding] = ()) -> Mapping[str, object]:
    """Return the JSON result."""
    from ...fl.log.reader import UNBEGUN

    bad, torn = verified.first_bad, verified.torn
    return {
        "records": verified.records,
        "head": verified.head,
        "complete": verified.complete and not edits,
        "problem": verified.problem or (UNBEGUN if verified.unbegun else None),
        "first_bad": None if bad is None else {"line": bad[0], "reason": bad[1]},
        "torn": None if torn is None else {"line": torn.number, "bytes": torn.size},
        "run_id": None if verified.opened is None else verified.opened.run_id,
        "dangling": list(verified.dangling),
        "recoveries": verified.recoveries,
        "signed": verified.signed,
        "anchor": verified.anchor,
        "checked": verified.checked,
        "up_to": verified.up_to,
        "signature": None if verified.signature is None else verified.signature.to_json(),
        "contradictions": [_contradiction(edit) for edit in edits],
    }


def _contradiction(edit: Finding) -> dict[str, object]:
    """Return a contradiction as JSON: all are errors, and none says what is left."""
    return {
        name: value for name, value in edit.to_json().items() if name not in ("severity", "epsilon")
    }


def _rows(verified: Verification, edits: Sequence[Finding]) -> list[tuple[str, str]]:
    from ...fl.log.reader import UNBEGUN

    rows = [
        ("records", str(verified.records)),
        ("head", verified.head or "none: the log is empty"),
        ("complete", "yes" if verified.complete and not edits else "no"),
    ]
    if verified.opened is not None:
        rows.append(("run", f"{plain(verified.opened.system)}, {plain(verified.opened.run_id)}"))
    if verified.recoveries:
        rows.append(("recoveries", str(verified.recoveries)))
    if verified.dangling:
        number = len(verified.dangling)
        rows.append(("dangling", f"{number} intent{'s' * (number > 1)} without a release, spent"))
    rows += anchors.rows(verified.checked, verified.signature, verified.up_to)
    if verified.anchor is not None:
        rows.append(("anchor", f"line {verified.anchor} has the expected head"))
    if verified.problem is not None:
        rows.append(("FAILED", plain(verified.problem)))
    if verified.unbegun:
        rows.append(("FAILED", f"no-run: {UNBEGUN}"))
    rows += [("FAILED", f"{edit.id}: {plain(edit.says)}") for edit in edits]
    return rows


def _configured(verified: Verification, folder: str) -> list[Finding]:
    """Return what the first line lacks of its configuration, and how that differs from its file."""
    from ...audit.configuration.first_line import (
        compare_with_file,
        missing_from_first_line,
        sentence_of,
    )
    from ...audit.findings import Finding

    assert verified.opened is not None
    pairs = {
        "configuration-mismatch": missing_from_first_line(verified.opened),
        "configuration-file-mismatch": compare_with_file(folder, verified.opened).differences,
    }
    return [
        Finding(name, "error", sentence_of(seen), _CONFIGURED, _TAKE_COPY, lines=(1,))
        for name, seen in pairs.items()
        if seen
    ]


def _models(replay: Replay | None) -> list[tuple[str, str]]:
    """Return what the files of models are, where they were looked at."""
    if replay is None:
        return []
    kept = f"{len(replay.matched):,}, each the one that its round released"
    rows = [("models", kept)]
    if replay.lost:
        rows.append(("lost", f"{_rounds(replay.lost)}: released where the run was cut off"))
    if replay.missing:
        rows.append(("FAILED", f"missing-models: no file of {_rounds(replay.missing)}"))
    rows += [("FAILED", f"surplus-model: {plain(name)} is of no round") for name in replay.surplus]
    rows += [("FAILED", f"exchanged-model: {plain(what)}") for _, what in replay.exchanged]
    return rows


def _rounds(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:5])
    more = f" and {len(numbers) - 5:,} more" if len(numbers) > 5 else ""
    return f"round{'s' * (len(numbers) > 1)} {shown}{more}"


def _warnings(verified: Verification, *, anchored: bool) -> tuple[str, ...]:
    said: list[str] = []
    if verified.ok and not verified.unbegun and not verified.complete and not anchored:
        said.append(
            "The run is not closed. It may still go on or have been cut off, and lines may have "
            "been taken off the end; a head that was kept elsewhere would tell (--head)."
        )
    covered = None if verified.signature is None else verified.signature.lines
    if verified.ok and covered is not None and covered < verified.records - 1:
        said.append(
            f"No signature covers the lines after line {covered}: anybody may have written them."
        )
    if verified.opened is not None and verified.opened.fsync == "never":
        said.append(
            "The log was written with fsync `never`: a crash of the machine may have lost intents."
        )
    return tuple(said)
