"""Converts NumPy arrays to the arrays of a framework, for a function that is called with them.

A framework is imported only if a spec or the annotations of a function name it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.errors import UserError
from kcheck.frameworks.arrays import AS_INTEGERS
from kcheck.model import Framework

Array: TypeAlias = npt.NDArray[Any]

_PACKAGES = {"numpy": "numpy", "torch": "torch", "jax": "jax", "tensorflow": "tensorflow"}
_ANNOTATED = {"torch": "torch", "jax": "jax", "jaxlib": "jax", "tensorflow": "tensorflow", "numpy": "numpy"}
"""The framework, by the top-level package of the module of a parameter's annotation."""


class FrameworkMissing(UserError):
    """A framework is not installed, or lacks the device, the dtype or the derivatives that a spec requires."""


def framework_of(function: Callable[..., object], wanted: Framework) -> Framework:
    """The framework whose arrays a function gets: the spec's, else that of its annotations, else NumPy.

    Raises:
        FrameworkMissing: it is not installed, or the spec requires a CUDA device that torch does not find.
    """
    name = wanted.name or _annotated(function) or "numpy"
    try:
        module: Any = importlib.import_module(_PACKAGES[name])
    except ImportError as error:
        raise FrameworkMissing(f"{name} cannot be imported: {error}; pip install 'kcheck[{name}]'") from None
    if wanted.device == "cuda" and name == "torch" and not module.cuda.is_available():
        raise FrameworkMissing("framework: {torch: cuda}: torch finds no CUDA device; use {torch: cpu}")
    if name == "jax":
        module.config.update("jax_enable_x64", True)  # otherwise float64 and int64 silently become 32 bits wide
    return Framework(name, wanted.device)


def _annotated(function: Callable[..., object]) -> str:
    called = getattr(function, "forward", function)
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return ""
    known = getattr(inspect.unwrap(called), "__globals__", {})
    for parameter in parameters:
        annotation = parameter.annotation
        if isinstance(annotation, str):  # of a module, perhaps renamed, or of a name imported from it
            meant = known.get(annotation.partition(".")[0])
            module = meant.__name__ if inspect.ismodule(meant) else getattr(meant, "__module__", annotation)
        else:
            module = getattr(annotation, "__module__", "")
        first = module.partition(".")[0]
        if first in _ANNOTATED:
            return _ANNOTATED[first]
    return ""


def wants_tensors(error: BaseException) -> str:
    """The fix for a call of PyTorch that failed because it got a NumPy array; empty for any other error."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    text = str(error)
    if tensor is None or "ndarray" not in text:
        return ""
    lacks = isinstance(error, AttributeError) and hasattr(tensor, str(error.name))
    if not lacks and not (isinstance(error, TypeError) and "Tensor" in text):
        return ""
    return "annotate the parameters to get tensors instead of NumPy arrays: x: torch.Tensor"


def passed_array(array: Array, framework: Framework) -> tuple[Any, Array]:
    """Convert an array for a function, and return the host memory to check afterwards, too.

    Args:
        array: with any strides, in memory that nothing else uses.

    Returns:
        (the framework's array, the NumPy array to check for writes). NumPy and torch on the CPU share the memory
        of the array, strides included. torch supports neither negative strides nor strides that are not multiples
        of the itemsize, and gets a contiguous copy instead. torch on a GPU gets a copy, whose writes the NumPy
        array does not show. JAX and TensorFlow copy, and their arrays are immutable.

    Raises:
        FrameworkMissing: the framework has no such dtype or device.
    """
    if framework.name == "numpy":
        return array, array
    try:
        return _MAKERS[framework.name](array, framework.device)
    except (TypeError, RuntimeError, AttributeError, ValueError) as error:
        what = f"{framework.name} on the {framework.device} cannot take an array of {array.dtype}: {error}"
        raise FrameworkMissing(what) from None


def _torch(array: Array, device: str) -> tuple[Any, Array]:
    import torch  # type: ignore[import-not-found,unused-ignore]

    if any(stride < 0 for stride in array.strides) or any(s % array.itemsize for s in array.strides):
        array = array.copy(order="C")  # ascontiguousarray keeps the negative stride of an axis of one element
    name = array.dtype.name
    if name in AS_INTEGERS:
        tensor = torch.from_numpy(array.view(AS_INTEGERS[name])).view(getattr(torch, name))
    else:
        tensor = torch.from_numpy(array)
    return (tensor, array) if device == "cpu" else (tensor.to(device), array)


def _jax(array: Array, device: str) -> tuple[Any, Array]:
    import jax  # type: ignore[import-not-found,unused-ignore]

    kind = "gpu" if device == "cuda" else device
    return jax.device_put(np.ascontiguousarray(array), jax.devices(kind)[0]), array


def _tensorflow(array: Array, device: str) -> tuple[Any, Array]:
    import tensorflow  # type: ignore[import-not-found,import-untyped,unused-ignore]

    with tensorflow.device("/GPU:0" if device == "cuda" else "/CPU:0"):
        return tensorflow.constant(np.ascontiguousarray(array)), array


_MAKERS: dict[str, Callable[[Array, str], tuple[Any, Array]]] = {
    "torch": _torch,
    "jax": _jax,
    "tensorflow": _tensorflow,
}
