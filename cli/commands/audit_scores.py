"""`privplan audit scores`: membership inference from the scores of a model that anybody trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...accountant import rounding
from ..inputs import options
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, paragraph

if TYPE_CHECKING:
    from ...audit.model_audits.score_audit import AttackResult, ScoreAudit

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Scores: .npz or .csv; see privplan explain scores.",
        show_default=False,
    ),
]
Attacks = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Attacks, the primary one first: lira,ratio,rmia,lira-offline,loss.",
        show_default=False,
    ),
]
Guesses = Annotated[
    int, typer.Option(metavar="R", help="Guesses about coins, fixed before scores were seen.")
]
CoinsSaid = Annotated[
    str | None,
    typer.Option(
        metavar="WORD",
        help="independent: fair coins, one a unit, that nothing tells, decided who was in.",
        show_default=False,
    ),
]
Delta = Annotated[float, typer.Option(help="Slack, delta, of the bound and of the claim.")]
Claimed = Annotated[
    float | None,
    typer.Option(metavar="E", help="The claimed epsilon at --delta.", show_default=False),
]

ASSUMPTIONS: Final = (
    "Coins are believed where they are declared; tables can only refute them.",
    "The primary attack and the number of guesses were fixed before scores were seen.",
    "Intervals of areas and rates are for these shadows and these models.",
    "An attack that finds nothing proves nothing.",
)


@options.option_group
class ScoresRequest(OutputOptions):
    """A file of scores, and how they are judged."""

    file: File
    attacks: Attacks = None
    guesses: Guesses = 100
    coins: CoinsSaid = None
    delta: Delta = options.DEFAULT_DELTA
    claimed: Claimed = None


@takes(ScoresRequest)
def scores(_: typer.Context, asked: ScoresRequest) -> Report:
    """Attack a model by its scores: who was in its training data.

    FILE has scores of records under the model, under shadows if there are any, and who was in
    which.  Each attack has its area and its hits at few false alarms, with intervals; epsilon from
    below is printed where coins decided who was in.  With --claimed, exit code 1 if the guesses
    contradict it at 1/1,000 over all attacks.  --quiet prints the bound of the primary attack, or
    its area.
    """
    from ...accountant import validate
    from ...audit.model_audits.score_audit import audit_tables
    from ...audit.model_audits.score_files import read_scores

    validate.probability_below_one(delta=asked.delta)
    validate.count(guesses=asked.guesses)
    if asked.claimed is not None:
        validate.non_negative(claimed=asked.claimed)
    said = asked.coins
    if said is not None:
        options.word(("independent", "none"), coins=said)
    file = read_scores(asked.file)
    coins = file.coins if said is None else ("independent" if said == "independent" else None)
    audit = audit_tables(
        file.tables,
        attacks=None if asked.attacks is None else asked.attacks.split(","),
        guesses=asked.guesses,
        delta=asked.delta,
        coins=coins,
        claimed=asked.claimed,
    )
    bound = audit.primary.epsilon_lower
    number = audit.primary.auc.value if bound is None else bound
    return Report(
        result={**audit.to_json(), "layout": file.layout},
        text=_text(audit),
        number=rounding.down(number, rounding.EXACT_DIGITS).replace(",", ""),
        assumptions=ASSUMPTIONS,
        ok=not audit.contradicted,
    )


def _text(audit: ScoreAudit) -> str:
    lines = [_row(each) for each in audit.attacks]
    if audit.blind is not None:
        area = audit.blind.auc
        lines.append(f"{'no model':<14}AUC {area.value:.3f} [{area.lower:.3f}, {area.upper:.3f}]")
        lines.append(paragraph(" " * 14, "A classifier that never sees the model."))
    lines += ["", CONCLUSIONS[audit.conclusion]]
    if audit.primary.epsilon_lower is not None:
        lines.append(
            f"epsilon >= {rounding.down(audit.primary.epsilon_lower)} at delta {audit.delta:g}, by "
            f"{audit.primary.correct} right of {audit.guesses} guesses about {audit.units:,} coins"
        )
    if audit.claimed is not None and audit.contradicted is not None:
        verdict = "CONTRADICTED" if audit.contradicted else "not contradicted"
        unusual = ", unusual at 95 %" if audit.unusual and not audit.contradicted else ""
        lines.append(f"epsilon {rounding.as_given(audit.claimed)}: {verdict}{unusual}")
    if audit.withheld:
        lines += ["", "Not printed:"]
        lines += [paragraph("  - ", f"{each}.") for each in audit.withheld]
    lines += ["", "What this rests on:", *(paragraph("  - ", each) for each in ASSUMPTIONS)]
    return "\n".join(lines)


CONCLUSIONS: Final = {
    "leak": "The model tells who was in its training data.",
    "groups differ": (
        "Members and others differ; without coins nobody knows whether the model tells it."
    ),
    "nothing": "Nothing was found, which proves nothing.",
}


def _row(attack: AttackResult) -> str:
    area = attack.auc
    line = f"{attack.attack:<14}AUC {area.value:.3f} [{area.lower:.3f}, {area.upper:.3f}]"
    for hit in attack.tpr:
        line += f"  TPR {hit.value:.3f} at {100 * hit.fpr:g} %"
    if attack.epsilon_lower is not None:
        line += f"  epsilon >= {rounding.down(attack.epsilon_lower)}"
    return line + ("  (primary)" if attack.primary else "")
