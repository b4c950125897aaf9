"""`privplan audit canaries`: examples to insert into a training, and what they show of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...accountant import rounding
from ..inputs import options
from ..inputs.anchors import ExpectedHead, normalised_head
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, paragraph, table

if TYPE_CHECKING:
    from ...audit.model_audits.canary_draw import DrawnCanaries
    from ...audit.model_audits.canary_scores import CanaryAudit

KINDS: Final = ("out-of-distribution", "wrong-label", "users")

Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="A table, .csv or .npz; with --schema only the names of its columns are read.",
        show_default=False,
    ),
]
Canaries = Annotated[
    int, typer.Option("--canaries", "-n", metavar="N", help="How many, each with a coin.")
]
Out = Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="A new folder for them.")]
Kind = Annotated[str, typer.Option(metavar="[" + "|".join(KINDS) + "]", help="What canaries are.")]
Public = Annotated[
    str | None,
    options.optional("WHO", "The records of DATA are published: by whom, and where."),
]
SchemaFile = Annotated[
    str | None,
    options.optional("FILE", "What columns may hold (privplan explain tables); no record is read."),
]
Label = Annotated[str, typer.Option(metavar="COLUMN", help="The column of what is learnt.")]
User = Annotated[
    str | None, options.optional("COLUMN", "The column of whose a record is, if there is one.")
]
RecordsEach = Annotated[
    int, typer.Option(metavar="K", help="Records of each canary, where canaries are users.")
]
Guesses = Annotated[
    int | None,
    options.optional("R", "How many coins will be guessed; else a tenth of them, 20 or more."),
]

Drawn = Annotated[
    str, typer.Argument(metavar="DIR", help="A folder that make has written.", show_default=False)
]
ScoreFile = Annotated[
    str,
    typer.Option(
        "--scores", metavar="FILE", help="Columns canary and score (or loss), .csv or .npz."
    ),
]
Delta = Annotated[float, typer.Option(help="Slack, delta, of the bound and of the claim.")]
Claim = Annotated[
    float | None,
    options.optional("E", "The claimed epsilon at --delta.", "--claim", "--claimed"),
]
ClaimedEvent = Annotated[
    str | None,
    options.optional(
        "EVENT.json", "The claimed mechanism, all of it: its trade-off curve too.", "--event"
    ),
]
ClaimedUnit = Annotated[
    str,
    typer.Option(metavar="[record|user]", help="Whom --claim and --event are about."),
]


@options.option_group
class CanariesRequest(OutputOptions):
    """What canaries are made from, and how many."""

    data: Data = None
    canaries: Canaries = 1000
    out: Out
    kind: Kind = "out-of-distribution"
    public: Public = None
    schema: SchemaFile = None
    label: Label = "y"
    user: User = None
    records_each: RecordsEach = 5
    guesses: Guesses = None


@options.option_group
class CanaryScoresRequest(OutputOptions):
    """A folder of canaries, their scores, and what is claimed."""

    folder: Drawn
    scores: ScoreFile
    delta: Delta
    claim: Claim = None
    event: ClaimedEvent = None
    unit: ClaimedUnit = "record"
    head: ExpectedHead = None


@takes(CanariesRequest)
def make(_: typer.Context, asked: CanariesRequest) -> Report:
    """Draw examples to insert into a training, each in or out by a secret coin.

    The folder has a file of those that are in, which joins the training data, and a file of all,
    which the trained model scores. Coins are committed to in a manifest that others may keep.
    Canaries are made from records that are --public, or from a --schema alone. --quiet prints the
    head of the manifest.
    """
    from ...audit.model_audits.canary_draw import draw_canaries

    drawn = draw_canaries(
        asked.data,
        asked.canaries,
        asked.out,
        kind=options.word(KINDS, kind=asked.kind),
        public=asked.public,
        schema=asked.schema,
        label=asked.label,
        user=asked.user,
        records_each=asked.records_each,
        guesses=asked.guesses,
    )
    said = drawn.manifest.drawn
    return Report(
        result={
            **{
                name: said[name] for name in ("kind", "canaries", "unit", "records_each", "guesses")
            },
            "folder": asked.out,
            "files": drawn.files,
            "removed": said["removed"],
            "commitment": said["commitment"],
            "head": drawn.head,
            "effects": list(drawn.effects),
        },
        text=_drawn_text(drawn, asked.out),
        number=drawn.head,
        assumptions=drawn.effects,
    )


def _drawn_text(drawn: DrawnCanaries, folder: str) -> str:
    said = drawn.manifest.drawn
    files = drawn.files
    rows = [
        (
            "canaries",
            f"{int(said['canaries']):,}, {said['kind']}, a coin for each {said['unit']}; "
            f"{int(said['guesses']):,} coins will be guessed",
        ),
        (files["insert"], "those that are in: add them to the training data; they tell the coins"),
        (files["score"], "all of them: what the trained model scores, by the id in `canary`"),
    ]
    if "remove" in files:
        rows.append((files["remove"], f"{int(said['removed']):,} rows of DATA, from 0, leave it"))
    rows += [
        (files["manifest"], "what is fixed now, without a coin: give it to others, or its head"),
        ("head", drawn.head),
    ]
    return "\n".join(
        [
            table(rows),
            "",
            "Train once, and score every canary. The first scores open the coins; later ones get",
            "no bound:",
            f"  privplan audit canaries score {folder} --scores s.csv --delta 1e-5 --claim E",
            "",
            "What inserting them does:",
            *(paragraph("  - ", each) for each in drawn.effects),
        ]
    )


@takes(CanaryScoresRequest)
def score(_: typer.Context, asked: CanaryScoresRequest) -> Report:
    """Open the coins of canaries for the scores of a trained model: epsilon from below.

    Every canary needs a score, in or out. The first scores open the coins, and later ones get no
    bound. With --claim or --event, exit code 1 if the guesses contradict it at 1/1,000. --quiet
    prints the bound that holds for any mechanism.
    """
    from ...audit.model_audits.canary_score_files import read_score_file
    from ...audit.model_audits.canary_scores import score_canaries
    from ..inputs.curve_file import read_event

    event = None if asked.event is None else read_event(asked.event)
    audit = score_canaries(
        asked.folder,
        read_score_file(asked.scores),
        delta=asked.delta,
        claimed=asked.claim,
        event=event,
        unit=options.word(("record", "user"), unit=asked.unit),
        head=normalised_head(asked.head),
    )
    return Report(
        result=audit.to_json(),
        text=_judged_text(audit),
        number=rounding.down(audit.epsilon_lower, rounding.EXACT_DIGITS).replace(",", ""),
        assumptions=audit.assumes,
        ok=not audit.contradicted,
    )


def _judged_text(audit: CanaryAudit) -> str:
    sure = f"delta {audit.delta:g}, {100.0 * audit.confidence:g} % confidence"
    lines = [
        f"epsilon >= {rounding.down(audit.epsilon_lower)} ({sure}) of any mechanism, for each "
        f"{audit.unit}",
        f"{audit.right:,} of {audit.guesses:,} guesses about {audit.canaries:,} coins were right; "
        f"{audit.into:,} canaries were in",
    ]
    shown = audit.mechanism
    if shown is not None:
        factor = "no factor on its noise is rejected"
        if shown.factor is not None:
            factor = f"{rounding.up(shown.factor)} times its noise is rejected"
        lines.append(
            f"epsilon >= {rounding.down(shown.epsilon)} of the named mechanism's curve; {factor}"
        )
    if audit.claimed is not None:
        verdict = "CONTRADICTED" if audit.contradicted else "not contradicted"
        unusual = ", unusual at 95 %" if audit.unusual else ""
        lines.append(f"epsilon {rounding.as_given(audit.claimed)}: {verdict}{unusual}")
    lines += [
        "",
        paragraph("", audit.note),
        paragraph("", audit.gradients),
        "",
        "What this rests on:",
        *(paragraph("  - ", f"{each[:1].upper()}{each[1:]}.") for each in audit.assumes),
        "",
        f"checked   {audit.checked}",
        f"head      {audit.head}",
    ]
    return "\n".join(lines)
