"""`privplan audit log`: is the log of a run whole, in order and unchanged?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import anchors, options
from .output import Report, plain, show, table

if TYPE_CHECKING:
    from ..audit.edits import Contradiction
    from ..audit.edits.replay import Replay
    from ..audit.verify import Verification

Folder = Annotated[
    str, typer.Argument(metavar="DIR", help="The output folder of a run.", show_default=False)
]
Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="DIR",
        help="Folder of every released model (save_models): each must be what its round released.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the head alone.")]

ASSUMPTIONS: Final = (
    "A line that was removed, moved, repeated, inserted or edited breaks the chain of hashes. "
    "Whoever wrote the whole end of the log anew, or cut it off between two lines, is found only "
    "by a head that was kept elsewhere (--head) or by a signature (--public-key).",
    "The log says what its writer wrote. FAILED stands beside what no run writes: rounds that are "
    "cut out, models and streams that do not join, keys taken out of the configuration. Whether "
    "the rest is what it makes, and adds up to what is promised, is the question of "
    "`privplan audit budget`.",
)

_CONFIGURED: Final = (
    "A run writes its whole configuration into the first line, and keeps its file beside the log."
)


def log(
    folder: Folder,
    public_key: anchors.PublicKey = None,
    head: anchors.ExpectedHead = None,
    models: Models = None,
    as_json: options.Json = False,
    quiet: Quiet = False,
) -> None:
    """Check the log of a run, and name the first bad line.

    Prints the head, the hash of the last line: keep it elsewhere, and nothing before it can be
    changed or taken away unnoticed.  Leaves with exit code 1 if a line is bad or torn, if lines
    contradict each other, their configuration or the files beside them, if no run was begun, or if
    --head, --public-key or --models do not hold; that a run is not closed is no failure.  What each
    check excludes: privplan explain log.
    """
    from ..audit.edits import edits_of
    from ..audit.edits.replay import replay
    from ..audit.verify import verify

    found = verify(folder, **anchors.expected(public_key, head))
    whole = found.first_bad is None and found.opened is not None
    edits = (*edits_of(folder), *_configured(found, folder)) if whole else ()
    replayed = replay(folder, models) if whole and models is not None else None
    report = Report(
        result={
            **result(found, edits),
            "models": None if replayed is None else replayed.to_json(),
        },
        text=table([*_rows(found, edits), *_models(replayed)]),
        number=found.head or "",
        assumptions=ASSUMPTIONS,
        warnings=_warnings(found, anchored=head is not None),
        ok=found.ok and not found.unbegun and not edits and (replayed is None or replayed.ok),
    )
    show(report, as_json=as_json, quiet=quiet)


def result(found: Verification, edits: Sequence[Contradiction] = ()) -> Mapping[str, object]:
    """Return the JSON result."""
    from ..fl.log.empty_log import UNBEGUN

    bad, torn = found.first_bad, found.torn
    return {
        "records": found.records,
        "head": found.head,
        "complete": found.complete and not edits,
        "problem": found.problem or (UNBEGUN if found.unbegun else None),
        "first_bad": None if bad is None else {"line": bad[0], "reason": bad[1]},
        "torn": None if torn is None else {"line": torn.number, "bytes": torn.size},
        "run_id": None if found.opened is None else found.opened.run_id,
        "dangling": list(found.dangling),
        "recoveries": found.recoveries,
        "signed": found.signed,
        "anchor": found.anchor,
        "checked": found.checked,
        "up_to": found.up_to,
        "signature": None if found.signature is None else found.signature.to_json(),
        "contradictions": [one.to_json() for one in edits],
    }


def _rows(found: Verification, edits: Sequence[Contradiction]) -> list[tuple[str, str]]:
    from ..fl.log.empty_log import UNBEGUN

    rows = [
        ("records", str(found.records)),
        ("head", found.head or "none: the log is empty"),
        ("complete", "yes" if found.complete and not edits else "no"),
    ]
    if found.opened is not None:
        rows.append(("run", f"{plain(found.opened.system)}, {plain(found.opened.run_id)}"))
    if found.recoveries:
        rows.append(("recoveries", str(found.recoveries)))
    if found.dangling:
        number = len(found.dangling)
        rows.append(("dangling", f"{number} intent{'s' * (number > 1)} without a release, spent"))
    rows += anchors.rows(found.checked, found.signature, found.up_to)
    if found.anchor is not None:
        rows.append(("anchor", f"line {found.anchor} has the expected head"))
    if found.problem is not None:
        rows.append(("FAILED", plain(found.problem)))
    if found.unbegun:
        rows.append(("FAILED", f"no-run: {UNBEGUN}"))
    rows += [("FAILED", f"{one.id}: {plain(one.what)}") for one in edits]
    return rows


def _configured(found: Verification, folder: str) -> list[Contradiction]:
    """Return what the first line lacks of its configuration, and how that differs from its file."""
    from ..audit.configuration.first_line import (
        compare_with_file,
        missing_from_first_line,
        sentence_of,
    )
    from ..audit.edits import Contradiction

    assert found.opened is not None
    pairs = {
        "configuration-mismatch": missing_from_first_line(found.opened),
        "configuration-file-mismatch": compare_with_file(folder, found.opened).differences,
    }
    return [
        Contradiction(
            name, sentence_of(seen), _CONFIGURED, "Take a copy that nobody has touched.", (1,)
        )
        for name, seen in pairs.items()
        if seen
    ]


def _models(found: Replay | None) -> list[tuple[str, str]]:
    """Return what the files of models are, where they were looked at."""
    if found is None:
        return []
    kept = f"{len(found.matched):,}, each the one that its round released"
    rows = [("models", kept)]
    if found.lost:
        rows.append(("lost", f"{_rounds(found.lost)}: released where the run was cut off"))
    if found.missing:
        rows.append(("FAILED", f"missing-models: no file of {_rounds(found.missing)}"))
    rows += [("FAILED", f"surplus-model: {plain(name)} is of no round") for name in found.surplus]
    rows += [("FAILED", f"exchanged-model: {plain(what)}") for _, what in found.exchanged]
    return rows


def _rounds(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:5])
    more = f" and {len(numbers) - 5:,} more" if len(numbers) > 5 else ""
    return f"round{'s' * (len(numbers) > 1)} {shown}{more}"


def _warnings(found: Verification, *, anchored: bool) -> tuple[str, ...]:
    sentence_of: list[str] = []
    if found.ok and not found.unbegun and not found.complete and not anchored:
        sentence_of.append(
            "The run is not closed. It may still go on or have been cut off, and lines may have "
            "been taken off the end; a head that was kept elsewhere would tell (--head)."
        )
    covered = None if found.signature is None else found.signature.lines
    if found.ok and covered is not None and covered < found.records - 1:
        sentence_of.append(
            f"No signature covers the lines after line {covered}: anybody may have written them."
        )
    if found.opened is not None and found.opened.fsync == "never":
        sentence_of.append(
            "The log was written with fsync `never`: a crash of the machine may have lost intents."
        )
    return tuple(sentence_of)
