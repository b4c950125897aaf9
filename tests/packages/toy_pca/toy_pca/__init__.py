"""Noisy means of records on private components: a system for privplan."""

from dataclasses import dataclass

from privplan.accountant import validate
from privplan.fl.declarations.declaration import Declaration, Key, Table
from privplan.fl.declarations.sealed_items import NOISE
from privplan.fl.declarations.toml_key import flag, word
from privplan.fl.delm.pca_terms import PCA

KINDS = ("wishart", "gaussian")


@dataclass(frozen=True, kw_only=True)
class ToySettings:
    pca: str = "wishart"
    as_published: bool = True
    components: int = 4
    row_norm: float = 1.0
    epsilon: float = 0.6


KEYS = (
    word("pca", KINDS, "the noise of the PCA step", "wishart"),
    Key("as_published", flag, "whether the run is as published", "true"),
    Key("components", validate.count, "how many components", "4"),
    Key("row_norm", validate.positive, "how long a row may be", "1.0"),
    Key("epsilon", validate.positive, "epsilon of the PCA step", "0.6"),
)
TABLE = Table(
    name="toy",
    about="what only toys have",
    settings=ToySettings,
    keys=KEYS,
)


def sealed(read):
    from privplan.fl.delm.pca import pca_sealed

    return {PCA: pca_sealed(read("toy", "pca")), "release": NOISE}


SYSTEMS = Declaration(
    name="toy-pca",
    summary="noisy means of features on private components",
    make="toy_pca.system:toy_pca",
    table=TABLE,
    rounds=2,
    trains=False,
    aggregations=("plain",),
    units=("record",),
    phases=(PCA, "release"),
    determines="toy_pca.system:DETERMINES",
    carrier="toy_pca.system:carrier",
    canaries=1_200,
    sealed=sealed,
)
