"""The configurations of the five published systems on the same data, for `five_systems`.

There is a form that holds and one as published; each is what `privplan run` would be given, but for
the seed of the data.  What it does not say is the usual value, and nothing in it was chosen by its
accuracy.  All that hold promise EPSILON at delta 1e-5 for their unit; as published the noise is
such that the paper's formula claims about as much, or as it stands.  A system that is not declared
is left out, so a form is added by its configuration alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from privplan.fl.declarations.registry import declaration_or_none

Form = Literal["sound", "as published"]
Table = dict[str, dict[str, Any]]

EPSILON: Final = 5.0
DELTA: Final = 1e-5
PRIVACY: Final = {"epsilon": EPSILON, "delta": DELTA}

HEART: Final = Path(__file__).resolve().parents[2] / "shared" / "data" / "heart_disease"
"""Where the four files of Heart Disease are looked for."""

HEART_SOURCE: Final = "UCI Machine Learning Repository, Heart Disease, doi 10.24432/C52P4X"


@dataclass(frozen=True)
class Records:
    """A data set, and what of a configuration follows from its public size.

    `senders` are FLAME's users, `chosen` and `padded_to` what each sends; `row_norm` is R.
    """

    name: str
    row_norm: float
    senders: int = 0
    chosen: int = 0
    padded_to: int = 0
    path: Path | None = None

    def table(self, **others: Any) -> dict[str, Any]:
        """Return `[data]`; silos are left out where the data fix them."""
        if self.path is None:
            return {"name": self.name, **others}
        others.pop("silos", None)
        return {"name": self.name, "path": str(self.path), **others}


DATA: Final = (
    Records("digits", senders=1_000, chosen=65, padded_to=333, row_norm=4.0),
    Records("breast-cancer", senders=400, chosen=6, padded_to=400, row_norm=6.0),
    Records("heart-disease", row_norm=4.0, path=HEART),
)


@dataclass(frozen=True)
class Case:
    """One form of one published system on one data set.

    `paper` is its name in `privplan claims`.  `canaries` are those of the attack (None: as many as
    the command would take).  `demonstration` names the one of `privplan audit demo` that measures
    the published form where its runs cannot be rehearsed.
    """

    paper: str
    form: Form
    data: str
    configuration: Table
    canaries: int | None = None
    demonstration: str = ""

    @property
    def system(self) -> str:
        """The system of the configuration."""
        return str(self.configuration["run"]["system"])


def present(records: Records) -> bool:
    """Return whether the files of a data set are here, if it needs any."""
    return records.path is None or records.path.is_dir()


def cases(data: tuple[Records, ...] = DATA) -> Iterator[Case]:
    """Yield all cases on data that are here, of systems that are declared."""
    for records in filter(present, data):
        for made in (_uldp_fl, _delm, _flame, _disco, _fedpower):
            for case in made(records):
                if declaration_or_none(case.system) is not None:
                    if records.path is not None:
                        case.configuration["evaluation"] = {
                            "test": "public",
                            "source": HEART_SOURCE,
                        }
                    yield case


def _uldp_fl(records: Records) -> Iterator[Case]:
    data = records.table(users=50, silos=5)
    sound: Table = {
        "run": {"system": "uldp-avg", "rounds": 10},
        "data": data,
        "privacy": PRIVACY,
        "security": {"aggregation": "masked"},
    }
    yield Case("uldp-fl", "sound", records.name, sound)
    published: Table = {
        "run": {"system": "uldp-naive", "rounds": 10},
        "data": data,
        "privacy": {"noise_multiplier": 3.1, "delta": DELTA},
        "uldp": {"as_published": True},
    }
    yield Case("uldp-fl", "as published", records.name, published, 300, "naive-factor")


def _disco(records: Records) -> Iterator[Case]:
    common: Table = {
        "run": {"system": "disco", "rounds": 10},
        "data": records.table(silos=10),
        "privacy": PRIVACY,
    }
    yield Case("disco", "sound", records.name, {**common, "disco": {"noise": "shared"}}, 300)
    published: Table = {
        **common,
        "security": {"aggregation": "plain"},
        "disco": {"noise": "as_published"},
    }
    yield Case("disco", "as published", records.name, published, None, "disco-radius")


def _flame(records: Records) -> Iterator[Case]:
    if records.path is not None:
        return  # its users send for themselves, and these records lie in four hospitals
    flame = {"chosen": records.chosen, "padded_to": records.padded_to, "transport": "ideal"}
    common: Table = {
        "run": {"system": "flame-double", "rounds": 5},
        "data": records.table(users=records.senders),
    }
    yield Case("flame", "sound", records.name, {**common, "privacy": PRIVACY, "flame": flame}, 400)
    published: Table = {
        **common,
        "privacy": {"noise_multiplier": 1.0, "delta": DELTA},
        "flame": {**flame, "as_published": True},
    }
    yield Case("flame", "as published", records.name, published, 400, "flame-tuples")


def _fedpower(records: Records) -> Iterator[Case]:
    common: Table = {
        "data": records.table(silos=5),
        "security": {"aggregation": "masked"},
    }
    fedpower = {"rank": 4, "row_norm": records.row_norm}
    sound: Table = {
        **common,
        "run": {"system": "fedpower"},
        "privacy": {"unit": "record", **PRIVACY},
        "fedpower": fedpower,
    }
    yield Case("fedpower", "sound", records.name, sound, 4_000)
    published: Table = {
        **common,
        "run": {"system": "fedpower-private", "rounds": 4},
        "privacy": {"unit": "record", "noise_multiplier": 4.0, "delta": DELTA},
        "fedpower": {**fedpower, "as_published": True},
    }
    yield Case("fedpower", "as published", records.name, published, None, "fedpower-removal")


def _delm(records: Records) -> Iterator[Case]:
    data = records.table(users=50, silos=5)
    sound: Table = {
        "run": {"system": "delm-linear"},
        "data": data,
        "privacy": {"unit": "record", **PRIVACY},
        "security": {"aggregation": "masked"},
        "delm": {"row_norm": records.row_norm},
    }
    yield Case("delm", "sound", records.name, sound, 4_000)
    published: Table = {
        "run": {"system": "delm-basic", "rounds": 10},
        "data": data,
        "privacy": PRIVACY,
        "training": {"model": "softmax" if records.name == "digits" else "logistic"},
        "delm": {"row_norm": records.row_norm},
    }
    yield Case("delm", "as published", records.name, published, 1_200)
