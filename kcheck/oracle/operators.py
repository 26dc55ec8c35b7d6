"""What PyTorch's operators round: tables, and functions for those that no table describes.

Names are those of ATen and of its primitives, without underscores at the ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.oracle.rounded import FUNCTION_ROUNDINGS, add_reduce

if TYPE_CHECKING:
    from kcheck.oracle.arithmetic import Arithmetic

Array: TypeAlias = npt.NDArray[Any]
Arguments: TypeAlias = dict[str, Any]


class Modes(Protocol):
    """What the functions below use of :class:`kcheck.oracle.tensors.RoundingModes`."""

    arithmetic: Arithmetic

    def array(self, tensor: Any) -> Array:
        """The values of a tensor."""

    def tensor(self, array: Any, like: Any) -> Any:
        """A tensor of the dtype and on the device of another one."""

    def rounded(self, result: Any, roundings: float, normwise: bool = False) -> Any:
        """New tensors, rounded where they are."""

    def composed(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of a formula, each operation rounded."""


EXACT = frozenset(
    name
    for row in (
        "neg abs sign sgn conj_physical clamp clamp_min clamp_max maximum minimum fmax fmin max min amax amin",
        "aminmax where masked_fill masked_scatter masked_select relu relu6 hardtanh threshold floor ceil round",
        "trunc frac remainder fmod copysign heaviside nextafter frexp ldexp nan_to_num sort topk kthvalue median",
        "nanmedian mode cummax cummin gather index index_select take embedding cat stack clone copy to_copy fill",
        "zero scatter slice_scatter select_scatter diagonal_scatter index_copy index_fill flip roll rot90 tril",
        "triu repeat repeat_interleave constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d",
        "replication_pad1d replication_pad2d replication_pad3d pixel_shuffle pixel_unshuffle channel_shuffle",
        "im2col unfold_copy diag_embed max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d",
        "adaptive_max_pool3d unsafe_view reshape_alias convert_element_type device_put complex polar",
        "view_as_complex view_as_real block_diag upsample_nearest1d upsample_nearest2d upsample_nearest3d resize",
        "as_strided_scatter set contiguous",
    )
    for name in row.split()
)
_BASIC = frozenset(("add", "sub", "rsub", "mul", "div", "square", "sqrt", "reciprocal", "leaky_relu"))
_LIBRARY = frozenset(
    name
    for row in (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh",
        "erf erfc erfinv lgamma digamma rsqrt sigmoid pow hypot logit i0 cbrt",
    )
    for name in row.split()
)
LINEAR: Mapping[str, tuple[str, ...]] = {
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
    "vdot": ("self", "other"),
    "convolution": ("input", "weight", "bias"),
    "scatter_add": ("self", "src"),
    "index_add": ("self", "source"),
    "avg_pool1d": ("self",),
    "avg_pool2d": ("self",),
    "avg_pool3d": ("self",),
    "adaptive_avg_pool2d": ("self",),
    "adaptive_avg_pool3d": ("self",),
    "upsample_linear1d": ("self",),
    "upsample_bilinear2d": ("self",),
    "upsample_trilinear3d": ("self",),
    "grid_sampler_2d": ("input",),
    "grid_sampler_3d": ("input",),
    "col2im": ("self",),
    "trace": ("self",),
}
"""Operators whose results are sums of products of elements, and the operands in which they are linear."""


def roundings(name: str, given: Arguments) -> float | None:
    """The error of an elementwise operator in unit roundoffs; None if it is not known to be one."""
    if name == "pow" and given.get("exponent") in (0.5, 1, 2, -1):
        return 1.0
    if name in _BASIC:
        return 1.0 if given.get("alpha", 1) in (1, -1) else 2.0
    return FUNCTION_ROUNDINGS if name in _LIBRARY else None


# --- operators that no table describes: each function gets the arguments by name


def _axes(tensor: Any, given: Arguments) -> tuple[int, ...]:
    dim = given.get("dim", given.get("dims"))
    axes = (
        tuple(range(tensor.dim()))
        if dim is None or dim == []
        else dim
        if isinstance(dim, tuple | list)
        else (dim,)
    )
    return tuple(axis % max(1, tensor.dim()) for axis in axes) if tensor.dim() else ()


def _summed(modes: Modes, given: Arguments) -> tuple[Any, Array, int]:
    """The operand of a sum, in the dtype of the result; the sum; and the number of terms of each."""
    tensor: Any = given.get("self", given.get("inp"))
    if given.get("dtype") is not None:
        tensor = tensor.to(given["dtype"])
    array, axes = modes.array(tensor), _axes(tensor, given)
    total = add_reduce(modes.arithmetic, array, axes, keepdims=bool(given.get("keepdim", False)))
    return tensor, total, int(np.prod([array.shape[axis] for axis in axes], dtype=np.int64))


def _sum(modes: Modes, operator: Any, given: Arguments) -> Any:
    tensor, total, _ = _summed(modes, given)
    return modes.tensor(total, tensor)


def _mean(modes: Modes, operator: Any, given: Arguments) -> Any:
    tensor, total, count = _summed(modes, given)
    return modes.tensor(modes.arithmetic.after(np.asarray(total / np.float64(count))), tensor)


def _cumsum(modes: Modes, operator: Any, given: Arguments) -> Any:
    tensor = given["self"] if given.get("dtype") is None else given["self"].to(given["dtype"])
    array, axis = modes.array(tensor), given["dim"]
    if not array.size or not array.ndim:
        return NotImplemented
    sums = modes.arithmetic.running(np.ascontiguousarray(np.moveaxis(array, axis, -1)))
    return modes.tensor(np.moveaxis(sums, -1, axis), tensor)


def _prod(modes: Modes, operator: Any, given: Arguments) -> Any:
    tensor = given["self"]
    axes = _axes(tensor, given)
    count = int(np.prod([tensor.shape[axis] for axis in axes], dtype=np.int64))
    return modes.rounded(operator(**given), max(1.0, float(np.sqrt(count))))


def _variance(modes: Modes, operator: Any, given: Arguments) -> Any:
    """The variance, the deviation, or either with the mean: in two passes, with a sum of squared differences."""
    name = operator._schema.name.partition("::")[2]
    tensor: Any = given.get("self", given.get("inp"))
    axes, keep = _axes(tensor, given), bool(given.get("keepdim", False))
    correction = given.get("correction", given.get("unbiased", True))
    count = int(np.prod([tensor.shape[axis] for axis in axes], dtype=np.int64))
    kept = max(0, count - (1 if correction is None else correction))

    def formula() -> Any:
        mean = tensor.mean(axes, keepdim=True) if axes else tensor
        squares = (tensor - mean).abs().square()
        spread = (squares.sum(axes, keepdim=keep) if axes else squares) / kept
        spread = spread.sqrt() if name.startswith("std") else spread
        if not name.endswith("mean"):
            return spread
        return spread, mean if keep or not axes else mean.reshape(spread.shape)

    return modes.composed(formula)


def _log_softmax(modes: Modes, operator: Any, given: Arguments) -> Any:
    """Through log-sum-exp, as cross entropy is computed. It is rounded to its own size, which may be far larger
    than that of the result."""
    x, axis = given["self"], given["dim"]
    if not x.numel() or given.get("half_to_float"):
        return NotImplemented

    def formula() -> Any:
        top = x.amax(axis, keepdim=True)
        return x - (top + (x - top).exp().sum(axis, keepdim=True).log())

    return modes.composed(formula)


def _product(modes: Modes, operator: Any, given: Arguments) -> Any:
    a, b = given["self"], given["mat2"]
    return modes.tensor(modes.arithmetic.product(modes.array(a), modes.array(b)), a)


def _product_and_sum(modes: Modes, operator: Any, given: Arguments) -> Any:
    a, b = (given.get(f"mat{n}", given.get(f"batch{n}")) for n in (1, 2))
    product = modes.arithmetic.product(modes.array(a), modes.array(b))
    rest = modes.array(given["self"])
    total = given.get("alpha", 1) * product + given.get("beta", 1) * rest
    return modes.tensor(modes.arithmetic.after(np.asarray(total)), a)


def _norm(modes: Modes, operator: Any, given: Arguments) -> Any:
    x = given["self"]
    if given.get("ord", 2) != 2 or given.get("dtype") is not None or not x.numel():
        return NotImplemented
    axes, keep = _axes(x, given), bool(given.get("keepdim", False))
    return modes.composed(lambda: x.abs().square().sum(axes, keepdim=keep).sqrt() if axes else x.abs())


OPERATORS: Mapping[str, Callable[[Modes, Any, Arguments], Any]] = {
    "sum": _sum,
    "mean": _mean,
    "prod": _prod,
    "cumprod": _prod,
    "cumsum": _cumsum,
    **dict.fromkeys(("var", "var_mean", "std", "std_mean"), _variance),
    "log_softmax": _log_softmax,
    "mm": _product,
    "bmm": _product,
    "addmm": _product_and_sum,
    "baddbmm": _product_and_sum,
    "linalg_vector_norm": _norm,
}
