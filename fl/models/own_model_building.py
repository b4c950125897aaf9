"""A model of one's own, from what makes it: built under the run's seed, and checked at the door."""

from __future__ import annotations

import hashlib
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import nn

from ...accountant.errors import InvalidInput, PrivplanError, Unsupported, kind_of
from .losses import (
    LOSSES_OF_NUMBERS,
    NAMED_LOSSES,
    BinaryCrossEntropy,
    CoxPartialLikelihood,
    CrossEntropy,
    Loss,
    OwnLoss,
    SquaredError,
)
from .model import Model
from .module_attributes import held_values, source_of
from .module_body import unheard
from .module_checks import copied, outputs_of, require_own_loss, require_sound
from .module_gradients import choose_way, numbers_kept
from .module_refusals import Door, refused
from .own_model import OwnModel, flat_parameters
from .unseeded_randomness import generators_kept
from .written_memory import memory_filled

PUBLIC_ARGUMENTS = ("features", "shape", "classes", "dropout")
"""What a function that makes a model may ask for, by the names of its arguments."""


def own_model(
    name: str,
    what: Callable[[], object],
    loss: str | Callable[[], object] | None,
    *,
    shape: tuple[int, ...],
    classes: int,
    unit: str | None,
    seed: int,
    dropout: float = 0.0,
    numbers: bool = False,
) -> OwnModel:
    """Return a module of one's own as a model, for records of `shape` and so many `classes`.

    `what()` returns a module, or what makes one of public arguments that it names
    (`PUBLIC_ARGUMENTS`); `loss` is the name of one, or returns a function of outputs and labels
    (`losses.OwnLoss`).  Without it, two classes and one output have the binary cross-entropy, more
    outputs the cross-entropy; `classes` 1 is Cox's partial likelihood, or the squared error where
    labels are `numbers`.  `unit` is what is protected.  Initial weights follow from the public
    `seed`; the generators of PyTorch, NumPy and Python go on afterwards as if nothing had been
    drawn.

    Raises `InvalidInput` for what `.module_checks` refuses, `Unsupported` for a loss that mixes
    records where one record is protected.
    """
    door = Door(name, tuple(shape), classes, unit, numbers)
    known = {
        "features": int(np.prod(shape)),
        "shape": tuple(shape),
        "classes": classes,
        "dropout": dropout,
    }

    def make(number: int) -> nn.Module:
        with seeded(number):
            return require_sound(_made(what(), known, name), door)

    body = copied(make(seed), door)
    if (flat_parameters(body) != flat_parameters(copied(make(seed), door))).any():
        raise InvalidInput(
            f"The model {name} begins with other weights whenever it is made.",
            "They are public, and follow from the seed of [training] alone.",
            "Draw them by PyTorch's own generator.",
        )
    # What a module draws against the rules must not move the generator of the program.
    with torch.random.fork_rng(devices=[]):
        before = flat_parameters(body)
        outputs, x = outputs_of(body, door)
        chosen = _loss(loss, door, outputs)
        choose_way(body, door, chosen, x)
        kept = numbers_kept(body, x)
    if not np.array_equal(before, flat_parameters(body)):
        raise refused(
            door,
            "changes its parameters when records pass",
            "Training alone moves them, from public initial values.",
            "Initialise them when it is made.",
        )
    return OwnModel(
        name,
        int(np.prod(shape)),
        outputs,
        body.dropout,
        chosen,
        (),
        body,
        tuple(shape),
        classes,
        make,
        seed,
        kept,
        numbers=numbers,
    )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let the seed decide what is drawn within, and leave no trace of it outside."""
    # Code of one's own may set this for itself, and the rest of the run must not notice.
    kind = torch.get_default_dtype()
    with generators_kept(), torch.enable_grad(), memory_filled():
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            torch.set_default_dtype(kind)


def architecture_of(model: Model) -> str:
    """Return `architecture_digest` of a model of one's own."""
    assert isinstance(model, OwnModel)
    return architecture_digest(model.body.evaluating)


def architecture_digest(module: nn.Module) -> str:
    """Return the SHA-256 digest of what a module is made of, but for what training moves.

    Its text; of each layer the class, its source where that is not PyTorch's and can be had, and
    what it holds of numbers, words, functions, tensors, and lists of them (`held_values`); of each
    parameter and buffer the name, shape and type, and the value where no training moves it.
    """
    digest = hashlib.sha256(repr(module).encode())
    for name, layer in module.named_modules():
        kind, settings = type(layer), [pair for pair in held_values(layer) if pair[0] != "training"]
        digest.update(f"\n{name} {kind.__module__}.{kind.__qualname__} {settings}".encode())
        if kind.__module__.partition(".")[0] != "torch":
            digest.update(source_of(kind).encode())
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        digest.update(f"\n{name} {tuple(value.shape)} {value.dtype} {value.requires_grad}".encode())
        if not value.requires_grad:
            digest.update(value.detach().cpu().double().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _made(value: object, known: Mapping[str, Any], name: str) -> object:
    """Return the module that `value` is, or makes of the public arguments that it names."""
    if isinstance(value, nn.Module):
        if known["dropout"]:
            raise _dropout_unheard(name)
        return value
    if not callable(value):
        raise InvalidInput(
            f"The model {name} is {kind_of(value)}.",
            "It must be a torch.nn.Module, or a function that returns one.",
            "Name such a function.",
        )
    asked: Mapping[str, inspect.Parameter] = {}
    with suppress(TypeError, ValueError):  # some functions have no signature
        asked = inspect.signature(value).parameters
    given = {key: known[key] for key in PUBLIC_ARGUMENTS if key in asked}
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    open_ones = [
        key
        for key, each in asked.items()
        if key not in given and each.default is each.empty and each.kind not in fixed
    ]
    if open_ones:
        raise InvalidInput(
            f"What makes the model {name} needs `{open_ones[0]}`.",
            f"A model is made of public arguments: {', '.join(PUBLIC_ARGUMENTS)}.",
            "Give it a default, or use one of these names.",
        )
    if known["dropout"] and "dropout" not in given:
        raise _dropout_unheard(name)
    try:
        with unheard():
            return value(**given)
    except PrivplanError:
        raise
    except Exception as error:  # whatever the function does
        text = " ".join(str(error).split())
        raise InvalidInput(
            f"The model {name} cannot be made: {type(error).__name__}: {text:.200}",
            next_step="Try it by itself in Python.",
        ) from error


def _dropout_unheard(name: str) -> InvalidInput:
    return InvalidInput(
        f"`dropout` is given in [training], and the model {name} does not ask for it.",
        "A model of your own says itself what drops out.",
        "Leave it out, or give the function that makes the model an argument `dropout`.",
    )


def _loss(loss: str | Callable[[], object] | None, door: Door, outputs: int) -> Loss:
    chosen: Loss
    if callable(loss):
        chosen = OwnLoss(_function(loss(), door))
        require_own_loss(chosen, door, outputs)
        return chosen
    if loss is not None:
        chosen = NAMED_LOSSES[loss]()
    elif door.numbers:
        chosen = SquaredError()
    elif door.classes == 1:
        chosen = CoxPartialLikelihood()
    else:
        chosen = BinaryCrossEntropy() if outputs == 1 else CrossEntropy()
    fits = {
        BinaryCrossEntropy: door.classes == 2 and outputs == 1,
        CrossEntropy: door.classes >= 2 and outputs == door.classes,
        CoxPartialLikelihood: door.classes == 1 and not door.numbers,
        **dict.fromkeys(LOSSES_OF_NUMBERS, door.numbers),
    }
    if not fits[type(chosen)]:
        of = "numbers" if door.numbers else f"{door.classes} classes"
        raise InvalidInput(
            f"The model {door.name} has {outputs} outputs for {of}, for which {loss} is no loss.",
            "binary-cross-entropy is for two classes and one output, cross-entropy for one output "
            "of each class, cox for survival, squared and huber for numbers.",
            "Choose another loss, or leave it out.",
        )
    if not chosen.additive and door.unit == "record":
        raise Unsupported(
            f"The loss of the model {door.name} has no gradient per record.",
            "It compares the records of a batch, so each record moves the others' gradients.",
            "Protect users or silos instead.",
        )
    return chosen


def _function(value: object, door: Door) -> Callable[..., Any]:
    """Return a loss as a function: a module is used as it is, in float64, and a class is made."""
    if isinstance(value, type):
        value = value()
    if isinstance(value, nn.Module):
        require_no_parameters(value, door)
        value = value.double().eval()
    if not callable(value):
        raise InvalidInput(
            f"The loss of the model {door.name} is {kind_of(value)}.",
            next_step="Give a function of outputs and labels, with a term for each record.",
        )
    return value


def require_no_parameters(loss: nn.Module, door: Door) -> None:
    """Raise `InvalidInput` for a loss with parameters, which nobody would train or release."""
    if any(True for _ in loss.parameters()):
        raise InvalidInput(
            f"The loss of the model {door.name} has parameters.",
            "What is released are the parameters of the model.",
            "Put them into the model.",
        )
