"""The options about what an attacker can do, and the target that they state."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from . import options

if TYPE_CHECKING:
    from ...accountant.calibration_targets import RiskTarget


AskRisk = Annotated[
    bool,
    typer.Option(
        "--risk", help="Say what the best attack reaches, from both sides (privplan explain risk)."
    ),
    options.PER_CALL,
]
Advantage = Annotated[
    float | None,
    options.optional(
        "A", "In the place of --epsilon and --delta: the largest TPR - FPR of any attack."
    ),
    options.PER_CALL,
]
Tpr = Annotated[
    float | None,
    options.optional("T", "In their place: the largest share of members that is found at --fpr."),
    options.PER_CALL,
]
Fpr = Annotated[
    float | None,
    options.optional(
        "F", "With --risk: the share of innocents that an attacker accuses; .01 if not given."
    ),
    options.PER_CALL,
]
FprOfTarget = Annotated[
    float | None,
    options.optional("F", "With --tpr: the share of innocents accused."),
    options.PER_CALL,
]
Bayes = Annotated[
    float | None,
    options.optional("B", "In their place: how often, at least, any attack on one person errs."),
    options.PER_CALL,
]
Prior = Annotated[
    float | None,
    options.optional(
        "P", "With --risk: how likely a person is a member beforehand; .5 if not given."
    ),
    options.PER_CALL,
]
Guesses = Annotated[
    int | None,
    options.optional(
        "M",
        "With --risk: how many equally likely candidates an attacker chooses from; 10 if not "
        "given.",
    ),
    options.PER_CALL,
]
FromFpr = Annotated[
    float | None,
    options.optional(
        "F", "With --risk: the FPR from which on the Gaussian is to dominate; 1e-5 if not given."
    ),
    options.PER_CALL,
]
PriorOfTarget = Annotated[
    float | None,
    options.optional(
        "P", "With --bayes: how likely a person is a member beforehand; .5 if not given."
    ),
    options.PER_CALL,
]

TARGETS: Final = {
    "epsilon": ("epsilon", "delta"),
    "advantage": ("advantage",),
    "tpr": ("tpr", "fpr"),
    "bayes": ("bayes", "prior"),
}
"""The ways of stating a target, with their options."""


@options.option_group
class AttackOptions:
    """Which attack is asked about."""

    risk: AskRisk = False
    fpr: Fpr = None
    prior: Prior = None
    guesses: Guesses = None
    from_fpr: FromFpr = None

    def attack(self, engine: str | None) -> dict[str, Any] | None:
        """Return the attack as `accountant.risk` takes it; None where --risk is not given.

        Raises `InvalidInput` for a number outside its range, and for an engine with it.
        """
        from ...accountant import validate
        from ...accountant.errors import InvalidInput
        from ...accountant.risk.risk import start_of_mu

        ranges: dict[str, tuple[Callable[..., Any], float]] = {
            "fpr": (validate.open_probability, 0.01),
            "prior": (validate.open_probability, 0.5),
            "guesses": (partial(validate.count_from, 2), 10),
            "from_fpr": (start_of_mu, 1e-5),
        }
        given = [name for name in ranges if getattr(self, name) is not None]
        if given and not self.risk:
            raise InvalidInput(
                f"`{given[0]}` goes with --risk, which is not given.",
                "It says which attack is asked about.",
                f"Add --risk, or leave out --{given[0].replace('_', '-')}.",
            )
        if not self.risk:
            return None
        if engine is not None:
            raise InvalidInput(
                "--risk goes with no --engine.",
                "An attack is bounded by curves over all epsilons, which the pld engine gives.",
                "Leave out --engine.",
            )
        return {
            name: options.checked(check, **{name: getattr(self, name)}) if name in given else usual
            for name, (check, usual) in ranges.items()
        }


@options.option_group
class TargetOptions:
    """What noise is calibrated to: epsilon at a delta, or what the best attack may reach."""

    epsilon: options.Epsilon = None
    delta: options.Delta = None
    advantage: Advantage = None
    tpr: Tpr = None
    fpr: FprOfTarget = None
    bayes: Bayes = None
    prior: PriorOfTarget = None


def asked_target(context: typer.Context, asked: TargetOptions) -> RiskTarget | None:
    """Return the attack risk that the options aim at; None where they aim at epsilon.

    Raises `InvalidInput` for several targets, a part of one, and what no noise meets.
    """
    from ...accountant.calibration_targets import risk_target
    from ...accountant.errors import InvalidInput

    tpr, fpr, bayes, prior = asked.tpr, asked.fpr, asked.bayes, asked.prior
    given = options.strongest(context, TARGETS)
    if len(given) > 1:
        raise InvalidInput(
            "Several targets are given: "
            + " and ".join(_typed(context, name) for name in given)
            + " exclude each other.",
            "Noise is calibrated to one thing.",
            "Give --epsilon and --delta, or --advantage, or --tpr and --fpr, or --bayes and "
            "--prior.",
        )
    if given in ((), ("epsilon",)):
        return None
    (kind,) = given
    if kind == "tpr":
        for name, value in (("tpr", tpr), ("fpr", fpr)):
            if value is None:
                raise InvalidInput(
                    f"`{name}` is missing.",
                    "A true positive rate means something at a false positive rate only.",
                    "Give --tpr and --fpr, such as --tpr 0.07 --fpr 0.01.",
                )
    if kind == "bayes" and bayes is None:
        raise InvalidInput(
            "`bayes` is missing.",
            "A prior is no target by itself.",
            "Give --bayes and --prior, such as --bayes 0.2 --prior 0.3.",
        )
    named = {"bayes": "bayes_risk"}.get(kind, kind)
    values = {
        "advantage": asked.advantage,
        "tpr": tpr,
        "fpr": fpr,
        "bayes_risk": bayes,
        "prior": prior,
    }
    try:
        return risk_target(named, values)
    except InvalidInput as error:
        # The names of the library are those of the options, but for one; what to do is typed.
        raise InvalidInput(
            error.what.replace("`bayes_risk`", "`bayes`"),
            error.why or _REASONS[kind],
            re.sub(r"`(\w+)`", r"--\1", error.next_step.replace("`bayes_risk`", "`bayes`")),
        ) from None


def _typed(context: typer.Context, target: str) -> str:
    """Return which options of a target were given, as one names them."""
    given = options.strongest(context, {name: (name,) for name in TARGETS[target]})
    return " with ".join(f"`{name}`" for name in given)


_REASONS: Final = {
    "advantage": "It is a difference of two shares, and 1 would permit everything.",
    "tpr": "Both are shares: of members that are found, and of innocents that are accused.",
    "bayes": "Both are probabilities: of an error, and of being a member beforehand.",
}
