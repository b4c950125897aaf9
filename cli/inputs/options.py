"""The options that commands share, and the choice between options that exclude each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar, dataclass_transform

import typer

from ...accountant import neighbours as relations
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from .defaults_file import silence

NEIGHBOURS: Final = relations.NEIGHBOURS
ENGINES: Final = ("rdp", "pld", "gdp", "blanket", "pure", "google", "microsoft")
MECHANISMS: Final = ("gaussian", "laplace")

TIERS: Final = ("claim", "robust", "residual", "membership")
"""The tiers of an attack, in the order of a report."""

SPLITS: Final = ("equal-noise", "weights", "cheapest")
COSTS: Final = ("variance", "deviation", "average", "largest")

PLAN_EXAMPLE: Final = (
    "privplan plan --epsilon 2 --delta 1e-5 --records 60000 --batch 256 --epochs 2,5,10,20"
)

DEFAULT_DELTA: Final = 1e-5

PER_CALL: Final = "per call"
"""Marks an option that is about a single call: neither a file nor a variable sets it."""


def optional(metavar: str, said: str, *flags: str) -> Any:
    """Return an option that may be left out, and whose help says what holds without it."""
    return typer.Option(*flags, metavar=metavar, help=said, show_default=False)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object."), PER_CALL]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the single number."), PER_CALL]
Epsilon = Annotated[float | None, typer.Option(help="Privacy loss, epsilon.")]
Delta = Annotated[
    float | None,
    typer.Option(help="Slack, delta, well below 1 / records (privplan explain delta)."),
]
AcceptDelta = Annotated[
    bool,
    typer.Option(
        "--accept-delta",
        help="Take a delta of 1 / records or more, which publishing one record at random "
        "satisfies; never .5 or more.",
    ),
    PER_CALL,
]
Neighbours = Annotated[
    str,
    typer.Option(
        metavar="[" + "|".join(NEIGHBOURS) + "]",
        help="What is protected (privplan explain neighbours).",
    ),
]
Folder = Annotated[
    str, typer.Argument(metavar="DIR", help="The output folder of a run.", show_default=False)
]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="[" + "|".join(ENGINES) + "]", help="Force one engine (privplan explain engines)."
    ),
]

Records = Annotated[int | None, typer.Option(help="Records in the data set.")]
Batch = Annotated[int | None, typer.Option(help="Mean number of records per step.")]
NoiseMultiplier = Annotated[
    float | None, typer.Option(help="Standard deviation (Laplace: scale) of the noise / clip norm.")
]
Rounds = Annotated[int | None, typer.Option(help="Number of steps.")]
Mechanism = Annotated[
    str, typer.Option(metavar="[" + "|".join(MECHANISMS) + "]", help="Shape of the noise.")
]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data; may be a fraction.")]
Rate = Annotated[float | None, typer.Option(help="Probability that a record joins a step.")]
SAMPLERS: Final = (
    "poisson",
    "shuffled",
    "fixed-size",
    "with-replacement",
    "random-allocation",
    "full",
)
"""The words of --sampling, the usual one first."""

Sampling = Annotated[
    str | None,
    typer.Option(
        metavar="[" + "|".join(SAMPLERS) + "]",
        help="How the records of a step are drawn; poisson if not given (privplan explain "
        "sampling).",
        show_default=False,
    ),
]
Group = Annotated[
    int, typer.Option(help="Protect units of this many records (privplan explain group).")
]
T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def option_group(cls: type[T]) -> type[T]:
    """Make a class of options frozen; each field is an option, with its help and its default."""
    # Nobody compares or prints what was asked, and what nobody generates needs no time at start.
    return dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)


ACCEPT_DELTA_FLAG: Final = "--accept-delta"
"""How a person accepts a delta of 1 / units or more."""

REASON_BY_OPTION: Final[Mapping[str, str]] = {
    "epsilon": "Epsilon bounds how far one unit can shift the odds of any output.",
    "delta": "Delta is a probability; 1 would permit everything, and few mechanisms reach 0.",
    "records": "It is the number of records in the data set.",
    "units": "It is how many are protected: records, or users where those are the unit.",
    "batch": "It is the mean number of records in one step.",
    "epochs": "It is how often, on average, each record is used.",
    "rate": "It is the probability with which a record joins one step.",
    "rounds": "It is the number of steps in which noise is added.",
    "group": "It is the number of records that one unit holds.",
    "neighbours": "A guarantee must say which change of the data it hides.",
    "engine": "An engine is one way of turning events into numbers.",
    "mechanism": "It is the shape of the noise that is added.",
    "noise_multiplier": "It is the noise divided by the bound on one contribution.",
    "sampling": "How a batch is drawn decides how much it hides.",
    "fpr": "It is the share of innocents that an attacker accuses.",
    "prior": "It is how likely a person is a member before anything is released.",
    "from_fpr": "Beyond one half the miss rate is the smaller one, and the data sets change sides.",
    "guesses": "It is how many candidates an attacker chooses from.",
}


_OTHERWISE: Final[Mapping[str, str]] = {
    "sampling": "privplan explain sampling; of batches drawn by weights: privplan check --set "
    "method=weighted"
}
"""What to do about a word that is like none of an option's."""

_TOPIC_BY_OPTION: Final[Mapping[str, str]] = {"delta": "delta", "group": "group"}
"""The topic that explains an option, where there is one."""


def checked(check: Callable[..., T], **field: object) -> T:
    """Return what `check` makes of the field, and say why the field has its range if it fails."""
    ((name, _),) = field.items()
    try:
        return check(**field)
    except InvalidInput as error:
        step = f"Give --{name.replace('_', '-')} a value in that range."
        if name in _TOPIC_BY_OPTION:
            step = f"privplan explain {_TOPIC_BY_OPTION[name]}"
        raise InvalidInput(error.what, error.why or REASON_BY_OPTION.get(name, ""), step) from None


def listed_numbers(flag: str, text: str, check: str, why: str) -> tuple[Any, ...]:
    """Return numbers that were typed with commas between them, each checked and once.

    `check` names a function of `accountant.validate`; `why` says what each number is.
    """
    from ...accountant import validate

    read: Callable[[str], float] = int if check == "count" else float
    try:
        values = [read(word) for word in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"`{flag}` must be numbers with commas between them; it is {text!r:.60}.",
            why,
            f"Give --{flag} 1,2 for example.",
        ) from None
    checks: Callable[..., Any] = getattr(validate, check)
    return tuple(dict.fromkeys(checked(checks, **{flag: value}) for value in values))


def missing_delta(units: int | None) -> InvalidInput:
    """Return the error of a delta that nobody gave, with a usual one where units are counted.

    >>> missing_delta(60_000).next_step
    'Add --delta 1e-06 (at most 1 / (10 x 60,000); privplan explain delta).'
    """
    step = "Add --delta, at most 1 / (10 x units): privplan explain delta"
    if units is not None and units > 0:
        usual = 10.0 ** -math.ceil(math.log10(10 * units))
        step = f"Add --delta {usual:.0e} (at most 1 / (10 x {units:,}); privplan explain delta)."
    return InvalidInput("`delta` is missing.", "Without it the noise is not determined.", step)


def delta_not_compared(delta: float, units: int | None) -> tuple[str, ...]:
    """Return what must be known of a delta where nobody said how many units there are."""
    if units is not None:
        return ()
    return (
        f"Delta {delta:g} is below 1 / units: their number is not stated, so it was not compared.",
    )


def accepted(delta: float, units: int | None, unit: str = "record") -> tuple[str, ...]:
    """Return the warning of a delta that is 1 / units or more, and was accepted."""
    from ...accountant.delta_checks import allows_publishing, publishing_sentences

    if units is None or not allows_publishing(delta, units):
        return ()
    return (" ".join(publishing_sentences(delta, units, unit)),)


def word(options: Sequence[str], **field: str) -> str:
    """Return the field if it is one of `options`; else suggest the nearest."""
    ((name, value),) = field.items()
    if value in options:
        return value
    close = nearest(value.lower(), options)
    otherwise = _OTHERWISE.get(name, f"Give --{name} {options[0]}")
    raise InvalidInput(
        f"`{name}` must be one of {', '.join(options)}; it is {value!r}.",
        REASON_BY_OPTION.get(name, ""),
        f"Did you mean --{name} {close}?" if close else otherwise,
    )


def strongest(context: typer.Context, groups: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the groups of options that were given by the strongest source that gave any.

    A flag is stronger than an environment variable, which is stronger than `privplan.toml`; so a
    flag silences the variables and the file where they would contradict it.
    """
    # Groups are compared by their strongest member, so that one flag outranks a whole file.
    ranks = {label: max(_rank(context, name) for name in names) for label, names in groups.items()}
    best = max(ranks.values())
    chosen = tuple(label for label, rank in ranks.items() if best > 0 and rank == best)
    used = {name for label in chosen for name in groups[label]}
    silence(context, {name for names in groups.values() for name in names} - used)
    return chosen


def _rank(context: typer.Context, name: str) -> int:
    source = context.get_parameter_source(name)
    order = ("DEFAULT_MAP", "ENVIRONMENT", "COMMANDLINE")
    return 1 + order.index(source.name) if source is not None and source.name in order else 0
