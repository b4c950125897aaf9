"""The models of the systems, for one parameter vector or for thousands side by side.

    model = model_named("mlp", features=30, classes=2)
    start = model.initial(seed=0)            # (5012,) float64, public
    model.logits(start, features)            # (records, 2)

A model is a chain of layers with hand-written derivatives, each of which works on a stack of
parameter vectors at once: no autograd, no loop over users.  A module of one's own is one as well
(`own_models.own_model`): it is checked at the door, and derived by `torch.func`.

- `registry`, `model`, `layers`, `images`, `losses`, `class_weights`: privplan's models: layers with
  derivatives by hand, losses.
- `own_model`, `own_model_building`: modules of one's own.
- `module_body`, `module_gradients`, `unit_operations`: their gradients, unit by unit or all at once
  (vmap).
- `module_checks`, `gradient_checks`, `module_attributes`, `module_refusals`, `module_failures`,
  `unseeded_randomness`, `written_memory`: the door for them: what is checked, and how a refusal
  names it.
- `training_draws`, `drawn_dropout`: public draws: order of records, dropout.
"""

from ...accountant.errors import MissingExtra

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtra(
        "Training needs PyTorch, which is not installed.",
        "The models run on its batched matrix products.",
        'Install the extra: pip install "privplan[fl]".',
    ) from None

from .model import Model
from .registry import MODELS, model_named

__all__ = ["MODELS", "Model", "model_named"]
