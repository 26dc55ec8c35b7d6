"""Converts an array of any framework to a NumPy array on the host.

Sources: the DLPack specification (``__dlpack__``, ``__dlpack_device__``), NumPy's ``__array__``, and Numba's
``copy_to_host``. The only import is that of torch for a torch tensor, so its program has already imported it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.errors import UserError
from kcheck.model import DTYPES

Array: TypeAlias = npt.NDArray[Any]

_HOST = (1, 3, 13)
"""DLPack devices that the CPU can read: kDLCPU, kDLCUDAHost, kDLCUDAManaged."""


FLUSHING = ("jax", "jaxlib", "tensorflow")
"""Frameworks whose CPU code may flush subnormal numbers to 0."""


class NotAnArray(UserError):
    """A value that is not an array of a known framework, or has a dtype that kcheck does not support."""


def as_numpy(value: object, name: str = "the value") -> Array:
    """An array of any framework as a NumPy array, copied from a GPU or another device if necessary.

    Args:
        value: a NumPy array or scalar, a Python number, a list, or an array of torch, JAX, TensorFlow, CuPy,
            numba.cuda or any other library that supports DLPack. Gradients are detached.
        name: the name of the array in messages.

    Returns:
        An array that may share memory with the value, and may be read-only. bfloat16 and float8 have the dtypes
        of ml_dtypes.

    Raises:
        NotAnArray: it is not an array, or its dtype is not in ``DTYPES``.
    """
    array = _host_array(value, name)
    if array.dtype.name not in DTYPES:
        known = ", ".join(DTYPES)
        raise NotAnArray(f"{name} has the dtype {array.dtype}; convert it to one of {known}")
    return array


def may_flush(value: object) -> bool:
    """Whether an array, or one in a tuple, list or dict, is from a framework in FLUSHING."""
    if isinstance(value, Mapping):
        return any(map(may_flush, value.values()))
    if isinstance(value, tuple | list):
        return any(map(may_flush, value))
    return type(value).__module__.partition(".")[0] in FLUSHING


def _host_array(value: Any, name: str) -> Array:
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    try:
        if type(value).__module__.split(".")[0] == "torch":
            return _torch(value)
        if hasattr(value, "copy_to_host"):  # numba.cuda
            return np.asarray(value.copy_to_host())
        if type(value).__module__.split(".")[0] == "cupy":
            return np.asarray(value.get())
        if type(value).__module__.split(".")[0] == "tensorflow" and hasattr(value, "numpy"):
            return np.asarray(value.numpy())  # its __array__ does not return an array for a bfloat16 scalar
        if type(value).__module__.startswith(("jax", "jaxlib", "tensorflow")) or not hasattr(value, "__dlpack__"):
            made = np.asarray(value)
            if made.dtype == object:
                raise NotAnArray(f"{name} is a {type(value).__name__}, not an array; pass an array or a number")
            return made
        return _dlpack(value)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise NotAnArray(f"{name}: a {type(value).__name__} could not be read as an array: {error}") from error


def _dlpack(value: Any) -> Array:
    device, _ = value.__dlpack_device__()
    if device in _HOST:
        return np.from_dlpack(value)
    return np.from_dlpack(value, device="cpu")


AS_INTEGERS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""The dtypes that torch has and NumPy does not, with the integer dtype that NumPy uses to read the bits."""


def _torch(value: Any) -> Array:
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in AS_INTEGERS:
        return np.asarray(tensor.numpy())
    import torch  # type: ignore[import-not-found,unused-ignore]  # the value is a tensor, so torch is imported

    bits = tensor.contiguous().view(getattr(torch, AS_INTEGERS[name])).numpy()
    return np.asarray(bits).view(DTYPES[name].numpy)
