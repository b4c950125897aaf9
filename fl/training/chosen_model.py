"""The model that settings name: one of privplan's, or one of one's own whose code may be loaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...accountant.errors import Unsupported
from ..declarations.own_code import CodeFile, OwnCode, is_own, logged_reference

if TYPE_CHECKING:
    from ..models import Model
    from ..settings.schema import Settings


def chosen_model(
    settings: Settings, shape: tuple[int, ...], classes: int, *, numbers: bool
) -> Model:
    """Return the model of these settings for records of `shape` and so many `classes`.

    `numbers` says that labels are numbers, of which `classes` is 1.

    **A model of one's own is code, and is executed here**: only where the settings carry it
    (`TrainingSettings.executable`), which who runs a configuration gives them.  Settings that were
    read from a log carry none, and a log's name loads nothing.

    Raises `Unsupported` where the code is not there, and as `models.own_models.own_model` and
    `models.model_named`.
    """
    from ..models.class_weights import class_weighted

    model = _of_name(settings, shape, classes, numbers)
    return class_weighted(model, settings.training.class_weights, classes)


def _of_name(settings: Settings, shape: tuple[int, ...], classes: int, numbers: bool) -> Model:
    from ..models import model_named
    from ..models.registry import USUAL_LOSS_OF_NUMBERS

    how = settings.training
    if not is_own(how.model):
        of_numbers = (how.loss or USUAL_LOSS_OF_NUMBERS) if numbers else None
        return model_named(
            how.model, math.prod(shape), classes, dropout=how.dropout, loss=of_numbers
        )
    from ..models.own_model_building import own_model

    code = how.executable or OwnCode()
    loss: str | Callable[[], object] | None = how.loss
    if is_own(how.loss):
        loss = _loader(code.loss, how.loss or "", "loss")
    return own_model(
        logged_reference(how.model),
        _loader(code.model, how.model, "model"),
        loss,
        shape=shape,
        classes=classes,
        unit=settings.privacy.unit if settings.system.promises else None,
        seed=how.seed,
        dropout=how.dropout,
        numbers=numbers,
    )


def _loader(code: object, name: str, what: str) -> Callable[[], object]:
    # A file is executed when the model is made; an object was made by who gave it.
    if isinstance(code, CodeFile):
        return code.load
    if code is None:
        raise lacking_code(name, what)
    return lambda: code


def lacking_code(name: str, what: str) -> Unsupported:
    """Return why nothing can be trained: the code of a `model` or `loss` is not there."""
    return Unsupported(
        f"The {what} of this run is code of its owner ({logged_reference(name)}), which is not "
        "given.",
        "A log only names code. The commands run (also --dry-run and --resume) and plan execute "
        "what a configuration or a run's folder names, and are for its owner alone.",
        f"Give it: --model FILE for an attack, and pp.resume(folder, {what}=...) for a run.",
    )
