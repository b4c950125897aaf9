"""Dropout of a module of one's own, by the public draws of a unit (`.training_draws`).

A layer `torch.nn.Dropout` takes its numbers from one generator for all: those of an absent user
would go to the next.  So it is replaced by one whose mask follows from the key of the unit and from
nothing else.
"""

from __future__ import annotations

import math
from typing import Final

from torch import Tensor, nn

from ...accountant.errors import InvalidInput
from .training_draws import DROPOUT_LEVELS, Draws

_CHANNELS_FROM: Final = 2
"""Dimensions of an input whose channels drop out: records, channels, and more."""

_WHOLE_CHANNELS: Final = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class UnitDraws:
    """The draws of the unit whose records pass; without a key nothing drops out."""

    def __init__(self) -> None:
        self._key: Tensor | None = None
        self._layers = 0

    def begin(self, key: Tensor | None) -> None:
        """Begin a pass of the records of the unit with this key, an int64 without dimensions."""
        self._key, self._layers = key, 0

    def dropped(self, x: Tensor, rate: float, *, channels: bool) -> Tensor:
        """Return x (records, ...), each value 0 with probability `rate`, else over 1 - `rate`."""
        if self._key is None or rate == 0.0:
            return x
        self._layers += 1
        of_channel = channels and x.ndim > _CHANNELS_FROM
        shape = x.shape[1:2] if of_channel else x.shape[1:]
        draws = Draws(self._key.reshape(1))
        kept = draws.dropout_mask(self._layers, x.shape[0], math.prod(shape), rate)[0]
        ones = (1,) * (x.ndim - 1 - len(shape))
        return x * kept.reshape(x.shape[0], *shape, *ones).to(x.dtype) / (1.0 - rate)


class _DrawnDropout(nn.Module):
    def __init__(self, rate: float, draws: UnitDraws, *, channels: bool) -> None:
        super().__init__()
        self.rate, self.draws, self.channels = rate, draws, channels

    def forward(self, x: Tensor) -> Tensor:
        """Return x, after dropout."""
        return self.draws.dropped(x, self.rate, channels=self.channels)


def with_drawn_dropout(module: nn.Module, draws: UnitDraws) -> tuple[nn.Module, float]:
    """Return a module whose dropout layers take their masks from `draws`, and its largest rate.

    Its layers are replaced in place.  Raises `InvalidInput` for a rate of 1, after which nothing is
    left to learn from, and for a class made from one of these, which may do something else.
    """
    kinds = (nn.Dropout, *_WHOLE_CHANNELS)
    rates = [0.0]
    # One layer that stands in several places stays one layer.
    layers: dict[int, nn.Module] = {}

    def drawn(layer: nn.Module) -> nn.Module:
        if id(layer) not in layers:
            rate = round(float(layer.p) * DROPOUT_LEVELS) / DROPOUT_LEVELS  # type: ignore[arg-type]
            if rate >= 1.0:
                raise InvalidInput(
                    f"A dropout layer of the model has the rate {layer.p}.",
                    "At 1 nothing is left to learn from.",
                    "Give it a rate below 1.",
                )
            rates.append(rate)
            whole = isinstance(layer, _WHOLE_CHANNELS)
            layers[id(layer)] = _DrawnDropout(rate, draws, channels=whole)
        return layers[id(layer)]

    for layer in module.modules():
        if isinstance(layer, kinds) and type(layer) not in kinds:
            raise InvalidInput(
                f"The layer {type(layer).__name__} of the model is made from a dropout layer.",
                "Dropout is replaced by one that draws by seed, round and user alone.",
                "Use torch.nn.Dropout itself, or make the layer from torch.nn.Module.",
            )
    if isinstance(module, kinds):
        module = drawn(module)
    for parent in list(module.modules()):
        for name, child in list(parent._modules.items()):
            if isinstance(child, kinds):
                parent._modules[name] = drawn(child)
    return module, max(rates)
