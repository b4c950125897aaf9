"""The door for a module of one's own: what it must be, so that a record counts for itself alone.

Everything is tried on random public inputs; no record is seen.  What is refused: output that
depends on the other records of a batch, layers that keep a state, draws of random numbers that no
seed of the run decides, hooks, and what has not the outputs that its loss needs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils._python_dispatch import TorchDispatchMode

from ...accountant.errors import InvalidInput, PrivplanError, kind_of
from .losses import Loss, OwnLoss
from .module_body import ModuleBody, unheard

_SEED: Final = 20260711
"""Seed of the public inputs."""

_RECORDS: Final = 17
"""How many records are tried together."""

_TOLERANCE: Final = 1e-9
"""Relative difference of two outputs in float64 that rounding explains."""

_SAME_GRADIENT: Final = 1e-6
"""Relative difference up to which gradients by vmap are those of single units."""

_HOOKS: Final = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)

_SEEDED: Final = torch.Tag.nondeterministic_seeded

_MIXES: Final = "What the model says of a record must not depend on the records beside it."


@dataclass(frozen=True)
class Door:
    """For what a module is checked: records of `shape`, of so many `classes` (1: survival)."""

    name: str
    shape: tuple[int, ...]
    classes: int
    unit: str | None


def require_sound(module: object, door: Door) -> nn.Module:
    """Return the module, if it can be a model at all; raises `InvalidInput`."""
    if not isinstance(module, nn.Module):
        raise _refused(
            door, f"is {kind_of(module)}, and no torch.nn.Module", "", "Return a module."
        )
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(value, UninitializedTensorMixin):
            raise _refused(
                door,
                f"has no shape yet at {name}",
                "How many numbers are released is public, and known before the first round.",
                "Give the sizes instead of using a lazy layer.",
            )
    for name, layer in module.named_modules():
        where = name or type(layer).__name__
        if any(getattr(layer, hooks, None) for hooks in _HOOKS):
            raise _refused(
                door,
                f"has a hook at {where}",
                "A hook sees every record, and may keep or change what passes.",
                "Write what it does into `forward`; for weight_norm and spectral_norm use "
                "torch.nn.utils.parametrizations.",
            )
        if isinstance(layer, _BatchNorm) and door.unit == "record":
            raise _refused(
                door,
                f"has a {type(layer).__name__} at {where}",
                f"{_MIXES} The unit is one record.",
                "Use torch.nn.GroupNorm or torch.nn.LayerNorm.",
            )
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if value.is_complex():
            raise _refused(door, f"has complex numbers at {name}", "", "Use real ones.")
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise _refused(
                door, f"has a number at {name} that is not finite", "", "Initialise all of it."
            )
    if not any(value.requires_grad for value in module.parameters()):
        raise _refused(door, "has no parameter that training could move", "", "Give it layers.")
    return module


def copied(module: nn.Module, door: Door) -> ModuleBody:
    """Return what trains a copy of the module; raises `InvalidInput` where it cannot be copied."""
    try:
        return ModuleBody(module)
    except PrivplanError:
        raise
    except Exception as error:  # whatever the module does when it is copied
        raise _failed(door, "cannot be copied", error) from error


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
        raise _refused(
            door,
            f"makes outputs of shape {tuple(out.shape)} of {len(x)} records",
            "Its loss needs one row for each record, with "
            f"{' or '.join(map(str, allowed))} in it: one for each class, one for two classes or "
            "for survival.",
            "Return outputs of shape (records, outputs).",
        )
    _require_no_chance(body, door, x)
    for training in (True, False):
        _require_alone(door, lambda at, mode=training: _outputs(body, at, mode), x, out.shape[1])
    _require_unchanged(body, door, x)
    return out.shape[1], x


def require_own_loss(loss: OwnLoss, door: Door, outputs: int) -> None:
    """Raise `InvalidInput` for a loss that is no term of each record by itself."""
    rng = torch.Generator().manual_seed(_SEED)
    logits = torch.randn(_RECORDS, outputs, dtype=torch.float64, generator=rng)
    labels = public_labels(door, _RECORDS)
    try:
        with torch.no_grad(), unheard(), _Chance() as chance:
            each = loss.each(logits, labels)
            alone = torch.cat(
                [loss.each(logits[i : i + 1], labels[i : i + 1]).reshape(-1) for i in range(3)]
            )
            few = loss.each(logits[:3], labels[:3])
    except Exception as error:  # whatever the loss does
        raise _failed(door, "has a loss that fails on random outputs", error) from error
    if not isinstance(each, Tensor) or each.shape != (_RECORDS,):
        shape = tuple(each.shape) if isinstance(each, Tensor) else kind_of(each)
        raise _refused(
            door,
            f"has a loss that returns {shape} for {_RECORDS} records",
            "The loss is a sum of terms of single records, and it is for privplan to add them up.",
            'Return one number for each record, (records,): reduction="none".',
        )
    if not bool(torch.isfinite(each).all()):
        raise _refused(door, "has a loss that is not finite on random outputs", "", "Repair it.")
    if chance.found:
        raise _by_chance(door, "has a loss that", chance.found)
    if not (_close(alone, each[:3]) and few.shape == (3,) and _close(few, each[:3])):
        raise _refused(
            door,
            "has a loss that mixes the records of a batch",
            "A term must depend on its own record alone.",
            "Leave out what compares records, or name the loss cox for survival.",
        )


def choose_way(body: ModuleBody, door: Door, loss: Loss, x: Tensor) -> None:
    """Let units go one by one where vmap cannot do it, or does something else.

    Raises `InvalidInput` where the module cannot be trained at all: its gradient fails, is not
    finite or is 0.
    """
    rng = torch.Generator().manual_seed(_SEED)
    records = x[:8].reshape(2, 4, *x.shape[1:])
    labels = public_labels(door, 8)
    labels = labels.reshape(2, 4, *labels.shape[1:])
    share = torch.tensor([[0.25] * 4, [0.5, 0.5, 0.0, 0.0]], dtype=torch.float64)
    weights = [
        each.detach() + 0.01 * torch.randn(2, *each.shape, dtype=torch.float64, generator=rng)
        for each in body.trained.values()
    ]
    keys = torch.tensor([1, 2]) if body.dropout else None
    with torch.random.fork_rng(devices=[]), unheard():
        try:
            slow = body.looped(loss, weights, records, labels, share, keys)
        except Exception as error:  # there was no memory
            raise _failed(door, "cannot be trained", error) from error
        if any(bool(torch.isnan(rows).any()) for rows in slow):
            raise _failed_gradient(body, door, loss, (weights, records, labels, share))
        try:
            quick = body.stacked(loss, weights, records, labels, share, keys)
        except Exception:
            body.one_by_one = True
        else:
            pairs = zip(quick, slow, strict=True)
            body.one_by_one = not all(_close(one, two, _SAME_GRADIENT) for one, two in pairs)
    if not any(bool(rows.any()) for rows in slow):
        raise _refused(
            door,
            "has outputs that depend on none of its parameters",
            "There is nothing to train.",
            "Leave out what cuts the gradient, as detach() and no_grad().",
        )


def public_labels(door: Door, records: int) -> Tensor:
    """Return labels that records of so many classes may have, which are of nobody."""
    if door.classes == 1:
        time = torch.arange(1.0, records + 1.0)
        return torch.stack([time, (torch.arange(records) % 3 > 0).float()], 1)
    return torch.arange(records) % door.classes


def numbers_kept(body: ModuleBody, x: Tensor) -> int:
    """Return about how many numbers are kept of one record between forward and backward."""
    counts = []
    for records in (1, 5):
        kept: dict[int, int] = {}
        shared = {each.data_ptr() for each in body.trained.values()}

        def keep(saved: Tensor, kept: dict[int, int] = kept) -> Tensor:
            if saved.data_ptr() not in shared:  # noqa: B023
                kept[saved.data_ptr()] = saved.numel()
            return saved

        with torch.enable_grad(), unheard():
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
                out = body.outputs(list(body.trained.values()), x[:records], training=True)
            counts.append(sum(kept.values()) + out.numel())
    return max(1, (counts[1] - counts[0]) // 4)


class _Chance(TorchDispatchMode):
    """Notes which operations draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _SEEDED in func.tags:
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


def _first(body: ModuleBody, door: Door) -> tuple[Tensor, Tensor]:
    """Return public inputs, and what the module makes of them: the first that it can take."""
    trouble: Exception | None = None
    for x in _inputs(door.shape):
        try:
            out = _outputs(body, x, True)
        except Exception as error:  # whatever the module does
            trouble = trouble or error
            continue
        if not isinstance(out, Tensor):
            raise _refused(
                door, f"makes {kind_of(out)}, and no tensor", "", "Return one tensor of outputs."
            )
        if bool(torch.isfinite(out).all()):
            return x, out
    if trouble is None:
        raise _refused(
            door, "makes outputs that are not finite", "Random records were tried.", "Repair it."
        )
    raise _failed(
        door, f"fails on random records of shape {door.shape} in float64", trouble
    ) from trouble


def _inputs(shape: tuple[int, ...]) -> Iterator[Tensor]:
    rng = torch.Generator().manual_seed(_SEED)
    size = (_RECORDS, *shape)
    yield torch.randn(size, dtype=torch.float64, generator=rng)
    yield torch.rand(size, dtype=torch.float64, generator=rng)
    yield torch.ones(size, dtype=torch.float64)


def _outputs(body: ModuleBody, x: Tensor, training: bool) -> Any:
    with torch.no_grad(), unheard():
        return body.outputs(list(body.trained.values()), x, training=training)


def _require_no_chance(body: ModuleBody, door: Door, x: Tensor) -> None:
    for training in (True, False):
        with torch.random.fork_rng(devices=[]), _Chance() as chance:
            _outputs(body, x, training)
        if chance.found:
            raise _by_chance(door, "", chance.found)


def _by_chance(door: Door, what: str, found: list[str]) -> InvalidInput:
    return _refused(
        door,
        f"{what} draws random numbers ({found[0]})".strip(),
        "They would come from one generator for all, which others' absence moves.",
        "Use torch.nn.Dropout, whose draws follow from the run's seed, user and round.",
    )


def _require_alone(door: Door, of: Callable[[Tensor], Tensor], x: Tensor, outputs: int) -> None:
    """Raise `InvalidInput` unless each row of output depends on its own record alone."""
    together = of(x)
    others = x.clone()
    others[1:] = x[1:].flip(0) * 3.0
    tries = {
        "the records beside it": [
            (_tried(of, x[:1]), together[:1]),
            (_tried(of, x[1:2]), together[1:2]),
            (_tried(of, x[:3]), together[:3]),
            (_tried(of, x.flip(0), together).flip(0), together),
            (_tried(of, others, together)[:1], together[:1]),
        ],
        "what was computed before": [(of(x), together)],
    }
    for on, pairs in tries.items():
        for one, two in pairs:
            if one.shape[1:] != (outputs,) or not _close(one, two):
                raise _refused(
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
    """Raise `InvalidInput` where a call changes a buffer or a parameter."""
    for module in (body.training, body.evaluating):
        trial = copy.deepcopy(module)
        values = {**dict(trial.named_parameters()), **dict(trial.named_buffers())}
        before = {name: value.detach().clone() for name, value in values.items()}
        with torch.no_grad(), unheard():
            trial(x)
        for name, value in (*trial.named_parameters(), *trial.named_buffers()):
            if name not in before or not torch.equal(value, before[name]):
                raise _refused(
                    door,
                    f"changes {name} when records pass",
                    "What one record leaves behind would reach the next.",
                    "Let the buffer be; training moves parameters alone.",
                )


def _failed_gradient(
    body: ModuleBody, door: Door, loss: Loss, at: tuple[list[Tensor], Tensor, Tensor, Tensor]
) -> InvalidInput:
    weights, records, labels, share = at
    leaves = [weight[0].detach().clone().requires_grad_() for weight in weights]
    try:
        with torch.enable_grad():
            out = body.outputs(leaves, records[0], training=True)
            value = loss.value(out[None], labels[:1], share[:1])[0]
            torch.autograd.grad(value, leaves, allow_unused=True)
    except Exception as error:
        return _failed(door, "has no gradient on random records", error)
    return _refused(
        door, "has a gradient that is not finite on random records", "", "Initialise it smaller."
    )


def _close(one: Tensor, two: Tensor, tolerance: float = _TOLERANCE) -> bool:
    size = max(1.0, float(two.abs().max())) if two.numel() else 1.0
    return one.shape == two.shape and bool(
        torch.allclose(one, two, rtol=tolerance, atol=tolerance * size)
    )


def _failed(door: Door, what: str, error: Exception) -> InvalidInput:
    text = " ".join(str(error).split())
    return _refused(
        door, what, f"{type(error).__name__}: {text:.200}", "Try it by itself on such a tensor."
    )


def _refused(door: Door, what: str, why: str, step: str) -> InvalidInput:
    return InvalidInput(f"The model {door.name} {what}.", why, step)
