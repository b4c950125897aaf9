"""What one unit adds to a Gram matrix with label sums, as a person describes it by options."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...accountant import validate
from ...accountant.errors import InvalidInput
from . import options

if TYPE_CHECKING:
    from ...accountant.sensitivity.gram import GramBound

RELEASES: Final = ("gram",)
UNITS: Final = ("record", "user", "silo")
EXAMPLE: Final = (
    "privplan calibrate --release gram --dimension 784 --classes 10 --epsilon 2 --delta 1e-5"
)
_SCHEDULE: Final = ("records", "batch", "epochs", "rate", "rounds", "group")
"""The options that describe other noise, and do not go with it."""

Release = Annotated[
    str | None,
    typer.Option(
        metavar="[" + "|".join(RELEASES) + "]",
        help="What is released once, of all data: gram, the sums of x x^T and of x y^T.",
        show_default=False,
    ),
]
Dimension = Annotated[
    int | None,
    typer.Option(help="gram: columns of x, the intercept among them.", show_default=False),
]
Classes = Annotated[
    int, typer.Option(help="gram: classes of y; 1 for a number in [-1, 1], 0 for no labels.")
]
LabelWeight = Annotated[
    float, typer.Option(help="gram: weight a of the label sums, relative to the row norm.")
]
ByClass = Annotated[bool, typer.Option("--by-class", help="gram: a matrix for each class.")]
RowsPerUser = Annotated[
    int | None, typer.Option(help="gram, unit user: most rows of one user.", show_default=False)
]
SiloRows = Annotated[
    int | None, typer.Option(help="gram, unit silo: most rows of one silo.", show_default=False)
]
Unit = Annotated[
    str, typer.Option(metavar="[" + "|".join(UNITS) + "]", help="gram: whose presence is hidden.")
]


@options.option_group
class GramOptions:
    """What one unit adds to a Gram matrix with label sums."""

    release: Release = None
    dimension: Dimension = None
    classes: Classes = 0
    label_weight: LabelWeight = 1.0
    by_class: ByClass = False
    rows_per_user: RowsPerUser = None
    silo_rows: SiloRows = None
    unit: Unit = "record"


SHAPE: Final = tuple(field.name for field in fields(GramOptions) if field.name != "release")
"""The options that describe such a release, and belong to nothing else."""


def bound(asked: GramOptions) -> GramBound:
    """Return what bounds one unit's part of the release, relative to the public row norm.

    A record is one row of norm 1; a user's k rows have square norm 1 together; a silo's k rows
    have norm 1 each.  Raises `InvalidInput` for what is missing or does not go together.
    """
    from ...accountant.sensitivity.gram import GramBound

    unit, rows_per_user, silo_rows = asked.unit, asked.rows_per_user, asked.silo_rows
    options.word(UNITS, unit=unit)
    if asked.dimension is None:
        raise InvalidInput(
            "`dimension` is missing.", "It says how many numbers are released.", EXAMPLE
        )
    caps = {"user": ("rows-per-user", rows_per_user), "silo": ("silo-rows", silo_rows)}
    for owner, (name, value) in caps.items():
        if value is not None and unit != owner:
            raise InvalidInput(
                f"`{name}` is for the unit {owner}; the unit is {unit}.",
                "It is a cap on the rows of one unit, and says nothing of another.",
                f"Give --unit {owner}, or leave --{name} out.",
            )
    if unit == "silo" and silo_rows is None:
        raise InvalidInput(
            "`silo-rows` is missing.",
            "A silo moves the sum by as many rows as it may have.",
            "Give --silo-rows, a public cap.",
        )
    rows = 1
    if rows_per_user is not None:
        rows = options.checked(validate.count, rows_per_user=rows_per_user)
    elif silo_rows is not None:
        rows = options.checked(validate.count, silo_rows=silo_rows)
    return GramBound(
        dimension=options.checked(validate.count, dimension=asked.dimension),
        classes=options.checked(_at_least_none, classes=asked.classes),
        label_weight=options.checked(validate.positive, label_weight=asked.label_weight),
        rows=rows,
        trace=float(rows) if unit == "silo" else 1.0,
        by_class=asked.by_class,
    )


def _at_least_none(**field: object) -> int:
    return validate.count_from(0, **field)


def is_asked(context: typer.Context, release: str | None) -> bool:
    """Return whether a Gram release is asked for; raise where a schedule is given with it.

    The stronger source decides: a flag silences what variables and `privplan.toml` say.
    """
    groups = {"release": ["release", *SHAPE], "schedule": list(_SCHEDULE)}
    kinds = options.strongest(context, groups)
    if "release" not in kinds:
        return False
    names = ("release", *SHAPE, *_SCHEDULE)
    given = options.strongest(context, {name: [name] for name in names})
    if release is None:
        raise InvalidInput(
            f"`{given[0].replace('_', '-')}` is given without --release gram.",
            "It describes a Gram matrix with label sums, and no other release.",
            EXAMPLE,
        )
    options.word(RELEASES, release=release)
    if "schedule" in kinds:
        other = next(name for name in given if name in _SCHEDULE)
        raise InvalidInput(
            f"`{other}` is given with --release gram.",
            "Such a release is made once, of all data, and its unit has options of its own.",
            EXAMPLE,
        )
    return True
