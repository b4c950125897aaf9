"""A training with Opacus in two processes, which exchange gradients over gloo.

In both ways each process draws its part of the records; the model is whole in each, or sharded.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from opacus.utils.fsdp_utils import FSDP2Wrapper
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader

import privplan as pp

from .opacus_trainings import CLIP, NOISE, data, plan

PROCESSES, HIDDEN = 2, 128


def trained_in_two(
    folder: Path, sharded: bool = False, *, noise: float = 1.0, **options: Any
) -> list[torch.Tensor]:
    """Train in two processes, DDP or sharded, and return the parameters of each.

    `options` are those of `logged`; `noise` is what share of its noise the optimizer adds.
    """
    torch.multiprocessing.spawn(  # type: ignore[no-untyped-call]
        _process, (folder, sharded, noise, options), nprocs=PROCESSES
    )
    return [torch.load(_parameters(folder, rank), weights_only=True) for rank in range(PROCESSES)]


def _parameters(folder: Path, rank: int) -> Path:
    return folder.parent / f"parameters-{rank}.pt"


def _process(rank: int, folder: Path, sharded: bool, noise: float, options: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    rendezvous = f"file://{folder.parent / 'rendezvous'}"
    distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=PROCESSES)
    try:
        model = _trained(folder, sharded, noise, options)
        whole = [
            each.full_tensor() if hasattr(each, "full_tensor") else each
            for each in model.parameters()
        ]
        flat = torch.cat([each.detach().flatten() for each in whole])
        torch.save(flat, _parameters(folder, rank))
    finally:
        distributed.destroy_process_group()


def _lowered(optimizer: Any, share: float) -> None:
    """Have an optimizer add a share of the noise that it speaks of."""
    whole = optimizer.add_noise

    def add_noise() -> None:
        whole()
        for each in optimizer.params:
            each.grad = each.summed_grad + share * (each.grad - each.summed_grad)

    optimizer.add_noise = add_noise


def _trained(folder: Path, sharded: bool, noise: float, options: dict[str, Any]) -> Any:
    torch.manual_seed(7)  # all processes begin with the same model
    inner = nn.Sequential(nn.Linear(8, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
    torch.seed()
    model: Any
    if sharded:
        model = FSDP2Wrapper(inner, mesh=init_device_mesh("cpu", (PROCESSES,)))
    else:
        model = DifferentiallyPrivateDistributedDataParallel(inner)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1)
    loader: Any = DataLoader(data(), batch_size=20)
    criterion: Any = nn.CrossEntropyLoss()
    engine = PrivacyEngine(accountant="rdp")
    with pp.logged(engine, folder, plan=plan(), **options):
        model, optimizer, *criteria, loader = engine.make_private(
            module=model,
            optimizer=optimizer,
            criterion=criterion,
            data_loader=loader,
            noise_multiplier=NOISE,
            max_grad_norm=CLIP,
            grad_sample_mode="ghost_fsdp" if sharded else "hooks",
        )
        if noise != 1.0:
            _lowered(optimizer, noise)
        loss = criteria[0] if criteria else criterion
        # What every process divides its part of a sum by: together it is the plan's divisor.
        assert optimizer.expected_batch_size * PROCESSES == plan().divisor
        for _ in range(2):
            for features, classes in loader:
                optimizer.zero_grad()
                loss(model(features), classes).backward()
                optimizer.step()
    return model
