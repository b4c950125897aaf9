"""The door for a module of one's own: what it must be, so that a record counts for itself alone.

Everything is tried on random public inputs; no record is seen.  What is refused: output that
depends on the other records of a batch, layers that keep a state, draws of random numbers that no
seed of the run decides, hooks, and what has not the outputs that its loss needs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ...accountant.errors import PrivplanError, kind_of
from .losses import OwnLoss
from .module_body import ModuleBody, unheard
from .module_refusals import TRIAL_SEED, Door, by_chance, close, failed, public_labels, refused
from .unseeded_randomness import drawn

_TRIAL_RECORDS: Final = 17
"""How many records are tried together."""

_HOOKS: Final = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)

_MIXES: Final = "What the model says of a record must not depend on the records next to it."


def require_sound(module: object, door: Door) -> nn.Module:
    """Return the module, if it can be a model at all; raises `InvalidInput`."""
    if not isinstance(module, nn.Module):
        raise refused(door, f"is {kind_of(module)}, and no torch.nn.Module", "", "Return a module.")
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(value, (UninitializedBuffer, UninitializedParameter)):
            raise refused(
                door,
                f"has no shape yet at {name}",
                "How many numbers are released is public, and known before the first round.",
                "Give the sizes instead of using a lazy layer.",
            )
    for name, layer in module.named_modules():
        where = name or type(layer).__name__
        if any(getattr(layer, hooks, None) for hooks in _HOOKS):
            raise refused(
                door,
                f"has a hook at {where}",
                "A hook sees every record, and may keep or change what passes.",
                "Write what it does into `forward`; weight_norm of "
                "torch.nn.utils.parametrizations has none.",
            )
        if isinstance(layer, _BatchNorm) and door.unit == "record":
            raise refused(
                door,
                f"has the layer {type(layer).__name__} at {where}",
                f"{_MIXES} The unit is one record.",
                "Use torch.nn.GroupNorm or torch.nn.LayerNorm.",
            )
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if value.is_complex():
            raise refused(door, f"has complex numbers at {name}", "", "Use real ones.")
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise refused(
                door, f"has a number at {name} that is not finite", "", "Initialise all of it."
            )
    if not any(value.requires_grad for value in module.parameters()):
        raise refused(door, "has no parameter that training could move", "", "Give it layers.")
    return module


def copied(module: nn.Module, door: Door) -> ModuleBody:
    """Return what trains a copy of the module; raises `InvalidInput` where it cannot be copied."""
    try:
        return ModuleBody(module)
    except PrivplanError:
        raise
    except Exception as error:  # whatever the module does when it is copied
        raise failed(door, "cannot be copied", error) from error


def outputs_of(body: ModuleBody, door: Door) -> tuple[int, Tensor]:
    """Return how many outputs the module has, and public inputs (records, ...) that it takes.

    Raises `InvalidInput` where it has not as many as there are classes, where they are no numbers,
    or depend on other records, on an earlier call or on chance, and where a call leaves something
    behind.
    """
    x, out = _first(body, door)
    most = door.classes
    allowed = (1, 2) if most == 2 else (most,)
    if out.ndim != 2 or len(out) != len(x) or out.shape[1] not in allowed:
        raise refused(
            door,
            f"makes outputs of shape {tuple(out.shape)} of {len(x)} records",
            "Its loss needs one row for each record, with "
            f"{' or '.join(map(str, allowed))} in it: one for each class, one for two classes, "
            "for survival or for a number.",
            "Return outputs of shape (records, outputs).",
        )
    _require_no_chance(body, door, x)
    for training in (True, False):
        _require_alone(door, partial(_outputs, body, training=training), x, out.shape[1])
    _require_unchanged(body, door, x)
    return out.shape[1], x


def require_own_loss(loss: OwnLoss, door: Door, outputs: int) -> None:
    """Raise `InvalidInput` for a loss that is no term of each record by itself."""
    rng = torch.Generator().manual_seed(TRIAL_SEED)
    logits = torch.randn(_TRIAL_RECORDS, outputs, dtype=torch.float64, generator=rng)
    labels = public_labels(door, _TRIAL_RECORDS)
    for slopes in (False, True):
        _require_terms(loss, door, logits.requires_grad_(slopes), labels)


def _require_terms(loss: OwnLoss, door: Door, logits: Tensor, labels: Tensor) -> None:
    """Raise `InvalidInput` unless there is a term of each record, the same whenever it is asked."""

    def terms(records: slice) -> Tensor:
        return loss.each(logits[records] * 1.0, given[records])

    given = labels.clone()
    try:
        with torch.set_grad_enabled(logits.requires_grad), unheard(), drawn() as draws:
            each = terms(slice(None))
            single = [terms(slice(i, i + 1)).reshape(-1) for i in range(3)]
            few, again = terms(slice(3)), terms(slice(None))
    except Exception as error:  # whatever the loss does
        raise failed(door, "has a loss that fails on random outputs", error) from error
    if not isinstance(each, Tensor) or each.shape != (_TRIAL_RECORDS,):
        shape = tuple(each.shape) if isinstance(each, Tensor) else kind_of(each)
        raise refused(
            door,
            f"has a loss that returns {shape} for {_TRIAL_RECORDS} records",
            "The loss is a sum of terms of single records, and it is for privplan to add them up.",
            'Return one number for each record, (records,): reduction="none".',
        )
    if not bool(torch.isfinite(each).all()):
        raise refused(door, "has a loss that is not finite on random outputs", "", "Repair it.")
    if draws:
        raise by_chance(door, "has a loss that", draws)
    if not torch.equal(given, labels):
        raise refused(door, "has a loss that changes labels", "", "Work on a copy of them.")
    if not close(again, each):
        raise refused(
            door,
            "has a loss that depends on what was computed before",
            "What one unit leaves behind would reach the next.",
            "Keep nothing from one call to the next.",
        )
    if not (close(torch.cat(single), each[:3]) and few.shape == (3,) and close(few, each[:3])):
        raise refused(
            door,
            "has a loss that mixes the records of a batch",
            "A term must depend on its own record alone.",
            "Leave out what compares records, or name the loss cox for survival.",
        )


def _first(body: ModuleBody, door: Door) -> tuple[Tensor, Tensor]:
    """Return public inputs, and what the module makes of them: the first that it can take."""
    trouble: Exception | None = None
    for x in _inputs(door.shape):
        try:
            out = _outputs(body, x, training=True)
        except Exception as error:  # whatever the module does
            trouble = trouble or error
            continue
        if not isinstance(out, Tensor):
            raise refused(
                door, f"makes {kind_of(out)}, and no tensor", "", "Return one tensor of outputs."
            )
        if bool(torch.isfinite(out).all()):
            return x, out
    if trouble is None:
        raise refused(
            door, "makes outputs that are not finite", "Random records were tried.", "Repair it."
        )
    raise failed(
        door, f"fails on random records of shape {door.shape} in float64", trouble
    ) from trouble


def _inputs(shape: tuple[int, ...]) -> Iterator[Tensor]:
    rng = torch.Generator().manual_seed(TRIAL_SEED)
    size = (_TRIAL_RECORDS, *shape)
    yield torch.randn(size, dtype=torch.float64, generator=rng)
    yield torch.rand(size, dtype=torch.float64, generator=rng)
    yield torch.ones(size, dtype=torch.float64)


def _outputs(body: ModuleBody, x: Tensor, *, training: bool) -> Any:
    with torch.no_grad(), unheard():
        return body.outputs(list(body.trained.values()), x.clone(), training=training)


def _require_no_chance(body: ModuleBody, door: Door, x: Tensor) -> None:
    for training in (True, False):
        with drawn() as draws:
            _outputs(body, x, training=training)
        if draws:
            raise by_chance(door, "", draws)


def _require_alone(door: Door, of: Callable[[Tensor], Tensor], x: Tensor, outputs: int) -> None:
    """Raise `InvalidInput` unless each row of output depends on its own record alone."""
    # Alone, in smaller company, among larger records, in another order, and once more.
    together = of(x)
    others = x.clone()
    others[1:] = x[1:].flip(0) * 3.0
    tries = {
        "the records next to it": [
            (_tried(of, x[:1]), together[:1]),
            (_tried(of, x[1:2]), together[1:2]),
            (_tried(of, x[:3]), together[:3]),
            (_tried(of, x.flip(0), together).flip(0), together),
            (_tried(of, others, together)[:1], together[:1]),
        ],
        "what was computed before": [(of(x), together)],
    }
    for on, pairs in tries.items():
        for values, expected in pairs:
            if values.shape[1:] != (outputs,) or not close(values, expected):
                raise refused(
                    door,
                    f"makes outputs of a record that depend on {on}",
                    f"{_MIXES} Random records were tried.",
                    "Normalise within a record, as torch.nn.GroupNorm and LayerNorm do; keep "
                    "nothing from one call to the next.",
                )


def _tried(of: Callable[[Tensor], Tensor], x: Tensor, otherwise: Tensor | None = None) -> Tensor:
    """Return outputs; where the module fails, `otherwise`, or none at all."""
    try:
        return of(x)
    except Exception:
        return torch.empty(0) if otherwise is None else otherwise


def _require_unchanged(body: ModuleBody, door: Door, x: Tensor) -> None:
    """Raise `InvalidInput` where a call changes a buffer, a parameter or its input."""
    for module in (body.training, body.evaluating):
        # A copy, as a call through `functional_call` would change copies of the buffers alone.
        trial = copy.deepcopy(module)
        values = {**dict(trial.named_parameters()), **dict(trial.named_buffers())}
        before = {name: value.detach().clone() for name, value in values.items()}
        given = x.clone()
        with torch.no_grad(), unheard():
            trial(given)
        if not torch.equal(given, x):
            raise refused(
                door,
                "changes its input",
                "The next epoch would see other records.",
                "Write x / 255, and leave inplace=True to layers behind the first.",
            )
        for name, value in (*trial.named_parameters(), *trial.named_buffers()):
            if name not in before or not torch.equal(value, before[name]):
                raise refused(
                    door,
                    f"changes {name} when records pass",
                    "What one record leaves behind would reach the next.",
                    "Let the buffer be; training moves parameters alone.",
                )
