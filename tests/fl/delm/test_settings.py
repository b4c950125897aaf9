"""What is refused of DELM's published schemes, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.delm.settings import IMAGE_MODELS
from privplan.fl.models import model_named
from privplan.fl.running.run_and_resume import run

from ...cases import for_each
from .schemes import described, settings

BASIC, ENHANCED = "delm-basic", "delm-enhanced"

REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    BASIC: [
        (
            {"privacy": {"noise_multiplier": 3.0}},
            r"`noise_multiplier` in \[privacy\], and delm-basic takes none",
        ),
        ({"privacy": {"epsilon": None}}, r"lacks `epsilon`"),
        *(
            (
                {"training": {"model": "mlp-64"}, "delm": {key: value}},
                rf'{key} = "{value}" in \[delm\] and model = "mlp-64"',
            )
            for key, value in (("objective", "once"), ("sensitivity", "proven"))
        ),
        (
            {"delm": {"selected": 2}},
            "gives `selected` in .delm., and delm-basic has no use for it",
        ),
        ({"delm": {"loss": "linear"}}, "gives `loss`"),
        ({"data": {"silos": 1}}, 'shuffle = "layers" in .delm., and silos = 1'),
        (
            {"delm": {"pca_epsilon": 0.5, "training_epsilon": 1.0}},
            "gives `pca_epsilon` in .delm., and the run has no such piece",
        ),
        (
            {"delm": {"pca": "wishart", "training_epsilon": 1.0}},
            "gives `training_epsilon` in .delm., and not `pca_epsilon`",
        ),
        (
            {
                "data": {"name": "digits-32"},
                "training": {"model": "alexnet"},
                "delm": {"pca": "wishart"},
            },
            r'model = "alexnet" .* keeps half of the features as components',
        ),
        (
            {"delm": {"pca": "wishart", "pca_epsilon": 0.3, "training_epsilon": 0.7, "ratio": 2.0}},
            "gives `ratio` with `pca_epsilon`",
        ),
        ({"delm": {"ratio": 2.0}}, "gives `ratio` .* with pca"),
        ({"delm": {"components": 4}}, "gives `components` .* with pca"),
        ({"data": {"name": "tcga-brca", "path": "x"}}, "times of survival"),
        ({"privacy": {"neighbours": "zero-out"}}, "add-remove or replace-one"),
        ({"privacy": {"unit": "user"}}, "needs `unit`"),
        ({"security": {"aggregation": "masked"}}, "aggregation"),
        ({"delm": {"row_norm": 0.0}}, "`row_norm` must be"),
        ({"delm": {"pca": "laplace"}}, "`pca` must be one of"),
        ({"delm": {"pca": "gaussian", "components": 31}}, "`components` must be at most 30"),
        (
            {"delm": {"pca": "wishart", "pca_epsilon": 0.6, "training_epsilon": 1.2}},
            r"the text claims 1.8 for the parts in \[delm\]",
        ),
        (
            {"delm": {"training_epsilon": 0.9, "sensitivity": "proven"}},
            "The parts of epsilon come to .* in 3 rounds; .privacy. claims 1",
        ),
        (
            {
                "delm": {
                    **{"pca": "gaussian", "pca_epsilon": 0.9, "training_epsilon": 0.5},
                    **{"sensitivity": "proven", "objective": "once"},
                }
            },
            "The parts of epsilon come to .* in 1 round; .privacy. claims 1",
        ),
    ],
    ENHANCED: [
        ({"delm": {"selected": 6}}, r"selected = 6 in \[delm\], and silos = 5"),
        (
            {"delm": {"training_epsilon": 1.0}},
            "gives `training_epsilon` in .delm., and not `selection_epsilon`",
        ),
        (
            {"delm": {"pca": "wishart", "selection": "uniform", "selection_epsilon": 1.0}},
            "gives `selection_epsilon` in .delm., and the run has no such piece",
        ),
    ],
    "delm-linear": [
        (
            {"run": {"rounds": 1}, "delm": {"pca": "none"}},
            "gives `pca` in .delm., and delm-linear has no use for it",
        )
    ],
}


@for_each(
    "system, changed, what", [(name, *given) for name, rows in REFUSED.items() for given in rows]
)
def test_what_is_refused_writes_nothing(
    system: str, changed: dict[str, Any], what: str, tmp_path: Path
) -> None:
    tables = described(system, **changed)
    if system == "delm-linear":
        tables["delm"] = {"row_norm": 6.0, **changed["delm"]}
    tables["privacy"] = {key: v for key, v in tables["privacy"].items() if v is not None}
    with pytest.raises(PrivplanError, match=what) as refused:
        run(tables, tmp_path / "run")
    assert isinstance(refused.value, InvalidInput)
    assert refused.value.next_step
    assert not (tmp_path / "run").exists()


@for_each("system", [BASIC, ENHANCED])
def test_the_usual_run_is_the_published_one(system: str) -> None:
    usual = settings(system, delm={"pca": "wishart"}).table
    assert usual.pca == "wishart"  # type: ignore[union-attr]
    defaults = declaration_of(system).defaults("digits")
    assert (defaults.rounds, defaults.users, defaults.silos) == (250, 100, 100)
    table = declaration_of(system).table
    assert table is not None
    defaults_of_table = table.settings(row_norm=1.0)
    names = ("pca", "objective", "sensitivity", "shuffle", "selection")
    pieces = tuple(getattr(defaults_of_table, key) for key in names)
    assert pieces == ("wishart", "fresh", "printed", "layers", "divergence")
    assert defaults_of_table.ratio == 2.0


@for_each("label", [0, 1])
def test_which_labels_occur_at_a_client_is_never_said(label: int) -> None:
    """Clients without a class, without records, and with labels that are none, send messages."""
    from dataclasses import replace

    from .schemes import built, federation, made

    data = federation(classes=2)
    labels = data.labels.copy()
    labels[data.silo == 1] = label  # one class only
    silo = np.where(data.silo == 2, 0, data.silo)  # nothing is left at the third
    data = replace(data, labels=labels, silo=silo, empty_silos=True)
    for model in ("logistic", "softmax", "mlp-64"):
        privacy = {"privacy": {"epsilon": 0.1}} if model == "mlp-64" else {}
        system = built(data, model=model, delm={"training_epsilon": 0.2}, **privacy)
        left = made(system, rounds=1)
        assert np.isfinite(left.models[1]).all()


@for_each("model", ["cnn", "alexnet"])
def test_the_sizes_of_images_are_those_of_their_models(model: str) -> None:
    for features in range(1, 3_100):
        try:
            model_named(model, features, 10)
        except InvalidInput:
            assert features not in IMAGE_MODELS[model]
        else:
            assert features in IMAGE_MODELS[model]
