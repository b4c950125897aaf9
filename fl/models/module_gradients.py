"""How the gradients of a module of one's own are taken: found out on public records at the door."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from ...accountant.errors import InvalidInput
from .gradient_checks import Trial, require_steady_gradients, require_true_gradients
from .losses import Loss
from .module_body import ModuleBody, unheard
from .module_refusals import TRIAL_SEED, Door, close, failed, public_labels, refused

_SAME_GRADIENT: Final = 1e-6
"""Relative difference up to which gradients by vmap are those of single units."""


def choose_way(body: ModuleBody, door: Door, loss: Loss, x: Tensor) -> None:
    """Let units go one by one where vmap cannot do it, or does something else.

    Raises `InvalidInput` where the module cannot be trained at all: its gradient fails, is not
    finite or is 0.
    """
    rng = torch.Generator().manual_seed(TRIAL_SEED)
    # Two units of four records, the second with two records of padding.
    records = x[:8].reshape(2, 4, *x.shape[1:])
    labels = public_labels(door, 8)
    labels = labels.reshape(2, 4, *labels.shape[1:])
    share = torch.tensor([[0.25] * 4, [0.5, 0.5, 0.0, 0.0]], dtype=torch.float64)
    weights = [
        each.detach() + 0.01 * torch.randn(2, *each.shape, dtype=torch.float64, generator=rng)
        for each in body.trained.values()
    ]
    keys = torch.tensor([1, 2]) if body.dropout else None
    trial = Trial(weights, records, labels, share, keys)
    with torch.random.fork_rng(devices=[]), unheard():
        try:
            slow = body.looped(loss, weights, records, labels, share, keys)
        except Exception as error:  # there was no memory
            raise failed(door, "cannot be trained", error) from error
        if any(bool(torch.isnan(rows).any()) for rows in slow):
            raise _failed_gradient(body, door, loss, (weights, records, labels, share))
        require_steady_gradients(body, door, loss, trial)
        require_true_gradients(body, door, loss, trial)
        body.vectorised = body.keeps_apart(
            loss,
            [weight[0] for weight in weights],
            (records[0].clone(), labels[0].clone(), share[0].clone()),
            None if keys is None else keys[0],
        )
        if body.vectorised:
            try:
                quick = body.stacked(loss, weights, records, labels, share, keys)
            except Exception:
                body.vectorised = False
            else:
                pairs = zip(quick, slow, strict=True)
                body.vectorised = all(close(*pair, _SAME_GRADIENT) for pair in pairs)
    if not any(bool(rows.any()) for rows in slow):
        raise refused(
            door,
            "has outputs that depend on none of its parameters",
            "There is nothing to train.",
            "Leave out what cuts the gradient, as detach() and no_grad().",
        )


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
                out = body.outputs(list(body.trained.values()), x[:records].clone(), training=True)
            counts.append(sum(kept.values()) + out.numel())
    return max(1, (counts[1] - counts[0]) // 4)


def _failed_gradient(
    body: ModuleBody, door: Door, loss: Loss, at: tuple[list[Tensor], Tensor, Tensor, Tensor]
) -> InvalidInput:
    weights, records, labels, share = at
    leaves = [weight[0].detach().clone().requires_grad_() for weight in weights]
    try:
        with torch.enable_grad():
            out = body.outputs(leaves, records[0].clone(), training=True)
            value = loss.value(out[None], labels[:1], share[:1])[0]
            torch.autograd.grad(value, leaves, allow_unused=True)
    except Exception as error:
        return failed(door, "has no gradient on random records", error)
    return refused(
        door, "has a gradient that is not finite on random records", "", "Initialise it smaller."
    )
