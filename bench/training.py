"""Local training of all users of a silo, against a loop over users in plain PyTorch."""

from __future__ import annotations

import statistics
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import timing
from numpy.typing import NDArray
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

if TYPE_CHECKING:
    from privplan.fl.training.units import Units

TRAINING_CASES = ((1000, 4.9, 15.0), (100, 44.0, 4.0))
"""Users, records of each on average, and how many times as fast as the loop is asked for."""

RATE, EPOCHS, BATCH = 0.01, 30, 64
USER_PARTS = 5
MAX_PARAMETER_DIFFERENCE = 1e-6

NOTE = """\
The network with 5,012 parameters, 30 epochs, batches of 64, no dropout, one thread; synthetic
records. The loop: torch.nn modules, autograd and torch.optim.SGD(foreach=True), tensors without
a DataLoader, the same precision and the same initial parameters. It goes through the users in five
parts, and after each part all users are trained by privplan: ratios are of the sum to the median.
In float32 rounding now and then puts a ReLU on the other side, in the loop or here."""

SCALED = "Here the loop went through a fifth of the users, and its time was multiplied by five."


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if find_spec("torch") is None:
        console.print("[yellow]Local training is skipped: torch is not installed.[/]")
        return []
    from privplan.fl.training.threads import one_thread

    table = grid(
        "Local training",
        *("users", "records", "<precision", "loop", "privplan", "its min", "runs", "ratio"),
        "largest difference",
    )
    verdicts, furthest = [], 0.0
    with one_thread():
        for users, records, asked in TRAINING_CASES:
            for precision in ("float64", "float32"):
                progress(f"local training of {users} users in {precision}")
                units = _units(users, records)
                loop, ours, apart = _compared(units, precision, quick)
                ratio = loop / statistics.median(ours)
                table.add_row(
                    str(users),
                    str(len(units.order)),
                    precision,
                    seconds(loop),
                    seconds(statistics.median(ours)),
                    seconds(min(ours)),
                    str(len(ours)),
                    f"{ratio:.1f}x",
                    f"{apart:.1e}",
                )
                if precision == "float64":
                    furthest = max(furthest, apart)
                    what = f"local training of {users} users"
                    verdicts.append(
                        Verdict(what, f">= {asked:g}x", f"{ratio:.1f}x", ratio >= asked)
                    )
    console.print(table, NOTE, *([SCALED] if quick else []), "", sep="\n")
    what = "local training, difference to the loop"
    return [
        *verdicts,
        Verdict(
            what,
            f"<= {MAX_PARAMETER_DIFFERENCE:g}",
            f"{furthest:.1e}",
            furthest <= MAX_PARAMETER_DIFFERENCE,
        ),
    ]


def _compared(units: Units, precision: str, quick: bool) -> tuple[float, list[float], float]:
    """Return the loop's time, the times of ours, and the largest difference of a delta."""
    from privplan.fl.models import model_named
    from privplan.fl.training.deltas import local_deltas
    from privplan.fl.training.units import Recipe

    model = model_named("mlp", units.features.shape[1], 2)
    start, recipe = model.initial(0), Recipe(RATE, EPOCHS, BATCH, precision=precision)  # type: ignore[arg-type]
    network = _network(precision)
    rows = local_deltas(model, start, units, recipe)  # warm-up
    _loop(network, start, units, range(2))
    loop, ours, apart = 0.0, [], 0.0
    parts = np.array_split(np.arange(len(units)), USER_PARTS)
    for part in parts:
        if not (quick and loop):
            theirs = timing.call_once(lambda part=part: _loop(network, start, units, part))
            loop += theirs.seconds * (USER_PARTS if quick else 1)
            apart = max(apart, float(np.abs(rows[part] - theirs.result).max()))
        ours.append(timing.call_once(lambda: local_deltas(model, start, units, recipe)).seconds)
    return loop, ours, apart


def _units(users: int, records: float) -> Units:
    """Return users with synthetic records, at most one batch each."""
    from privplan.fl.training.units import Units

    rng = np.random.default_rng(0)
    sizes = np.clip(rng.poisson(records, users), 1, BATCH)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    total = int(offsets[-1])
    features = rng.normal(size=(total, 30)).astype(np.float32)
    labels = rng.integers(0, 2, total)
    return Units(
        features, labels, np.arange(total), offsets, np.arange(users), np.zeros(users, int)
    )


def _network(precision: str) -> Any:
    import torch
    from torch import nn

    parts: list[nn.Module] = []
    for _ in range(5):
        parts += [nn.Linear(30, 30), nn.ReLU(), nn.GroupNorm(1, 30)]
    return nn.Sequential(*parts, nn.Linear(30, 2)).to(getattr(torch, precision))


def _loop(network: Any, start: NDArray[np.float64], units: Units, users: Any) -> NDArray[Any]:
    """Train one user after the other, and return their deltas."""
    import torch
    from torch import nn

    parameters = list(network.parameters())
    first = torch.tensor(start, dtype=parameters[0].dtype)
    x = torch.tensor(units.features, dtype=first.dtype)
    y = torch.tensor(units.labels)
    rows = []
    for user in users:
        nn.utils.vector_to_parameters(first.clone(), parameters)
        sgd = torch.optim.SGD(parameters, lr=RATE, foreach=True)
        records = slice(int(units.offsets[user]), int(units.offsets[user + 1]))
        for _ in range(EPOCHS):
            for features, labels in zip(
                x[records].split(BATCH), y[records].split(BATCH), strict=True
            ):
                sgd.zero_grad()
                nn.functional.cross_entropy(network(features), labels).backward()
                sgd.step()
        rows.append((nn.utils.parameters_to_vector(parameters) - first).detach().double().numpy())
    return np.stack(rows)
