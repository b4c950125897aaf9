"""Operations that keep units apart, of which alone a stack of units may be computed.

Under vmap all units lie behind one another in one tensor.  An operation that looks values up by an
index, as an embedding does, may then read or write the row of the next unit where plain PyTorch
would refuse the index, and what is written in place may be shared by all.  So the list is closed:
what is not in it goes unit by unit, with copies of its own.

A sum over all axes is the unit's own there, as PyTorch's rules of vmap leave the axis of units out.
Rules of other authors are handed that axis, so none is run: neither of `torch.autograd.Function`,
nor of `torch.library.register_vmap`, nor what a `TorchDispatchMode` does or a class of tensors.

What hands out memory that nobody has written (`empty`) is in the list, as others begin with it: it
is filled for as long as a module computes (`.written_memory`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from torch import Tensor
from torch._functorch.pyfunctorch import VmapInterpreter
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

_WITH_SLOPES: Final = """
    _adaptive_avg_pool2d _log_softmax _prelu_kernel _weight_norm_interface adaptive_max_pool2d
    avg_pool2d convolution elu gelu hardsigmoid hardswish hardtanh leaky_relu log_sigmoid
    max_pool2d_with_indices mish native_batch_norm native_group_norm native_layer_norm nll_loss
    select sigmoid silu slice softplus tanh threshold
"""
"""Names whose derivative is an operation too: NAME_backward."""

_OTHERS: Final = """
    abs add addcdiv addcmul addmm alias all amax amin any arange baddbmm bitwise_and bitwise_not
    bitwise_or bitwise_xor bmm cat clamp clamp_max clamp_min clone constant_pad_nd cos detach div
    dot empty empty_like eq erf exp expand expm1 eye full full_like gather ge gt isfinite isinf
    isnan le lift_fresh linalg_vector_norm linear log log1p log_sigmoid_forward logical_and
    logical_not logical_or logsumexp lt masked_fill matmul maximum mean minimum mm mul mv ne neg
    new_empty new_full new_ones new_zeros nll_loss_forward ones ones_like permute pow reciprocal
    relu repeat rsqrt rsub scalar_tensor scatter scatter_add sgn sign sin split split_with_sizes
    sqrt square squeeze stack std sub sum t transpose unbind unsafe_split unsqueeze var var_mean
    view where zeros zeros_like __lshift__ __rshift__ _reshape_copy _safe_softmax _softmax
    _softmax_backward_data _log_softmax_backward_data _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward _to_copy _unsafe_view
"""
"""Of one value, of values that lie together, of shapes alone, and sums over an axis.

Unlike an embedding, gather and scatter keep the axis of units under vmap, and refuse an index that
is out of range.
"""

_IN_PLACE: Final = """
    add_ copy_ div_ elu_ fill_ gelu_ hardswish_ hardtanh_ leaky_relu_ masked_fill_ mish_ mul_ neg_
    reciprocal_ relu_ scatter_add_ sigmoid_ silu_ sub_ tanh_ unsqueeze_ zero_
"""
"""What may write, though never into what was handed in."""

_ALLOWED: Final = frozenset(_OTHERS.split()) | {
    name + end for name in _WITH_SLOPES.split() for end in ("", "_backward")
}

_INDEXED: Final = frozenset(
    ["gather", "scatter", "scatter_add", "scatter_add_", "nll_loss_forward"]
)
"""What is ended by an index that is out of range: on a GPU, so is everything after it."""

_WRITES: Final = frozenset(_IN_PLACE.split())


class CrossesUnits(Exception):
    """An operation that is not known to keep units apart."""


class _Entrances:
    """Where Python is handed all units in one tensor: closed while `UnitsApart` is watching.

    Every rule of vmap in Python is found through a `VmapInterpreter`, PyTorch's own ones are not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watching = 0
        self._opened: dict[tuple[type, str], Callable[..., Any]] = {
            (VmapInterpreter, "__init__"): VmapInterpreter.__init__,
            (TorchDispatchMode, "__enter__"): TorchDispatchMode.__enter__,
        }

    def close(self) -> None:
        with self._lock:
            self._watching += 1
            if self._watching == 1:
                for (owner, name), enter in self._opened.items():
                    setattr(owner, name, _watched(owner, enter))

    def open(self) -> None:
        with self._lock:
            self._watching -= 1
            if self._watching == 0:
                for (owner, name), enter in self._opened.items():
                    setattr(owner, name, enter)


def _watched(owner: type, enter: Callable[..., Any]) -> Callable[..., Any]:
    """Return `enter`, which raises `CrossesUnits` where `UnitsApart` is watching."""

    def entering(self: Any, *args: Any) -> Any:
        # Of this computation, whose threads share its modes: other threads may go on.
        if any(isinstance(mode, UnitsApart) for mode in _get_current_dispatch_mode_stack()):
            raise CrossesUnits(owner.__name__)
        return enter(self, *args)

    return entering


_ENTRANCES: Final = _Entrances()


class UnitsApart(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises `CrossesUnits` before an operation that is not in the list, or writes into `handed`.

    Likewise before code of other authors that would see units in one tensor.  It sees what is
    computed in the end, below vmap and the derivatives.  `indexed` is whether one was that takes an
    index.
    """

    def __init__(self, handed: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.indexed = False
        self._handed = {_place(each) for each in handed}

    def __enter__(self) -> UnitsApart:
        _ENTRANCES.close()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        _ENTRANCES.open()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema
        space, _, name = schema.name.partition("::")
        allowed = space == "aten" and name in (_WRITES if schema.is_mutable else _ALLOWED)
        # A class of tensors may compute it by code of its own.
        allowed &= all(kind.__torch_dispatch__ is Tensor.__torch_dispatch__ for kind in types)
        # What an operation in place changes is its first argument.
        if not allowed or (schema.is_mutable and _place(args[0]) in self._handed):
            raise CrossesUnits(schema.name)
        self.indexed |= name in _INDEXED
        return func(*args, **(kwargs or {}))


def _place(tensor: Tensor) -> int:
    """Return where the memory begins that a tensor looks at."""
    return tensor.untyped_storage().data_ptr()
