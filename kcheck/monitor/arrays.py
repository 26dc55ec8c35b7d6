"""Copy the arguments and results of a call in the framework of each array, without waiting for a device.

No framework is imported here: if there is an array, its framework is already imported.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

_IMMUTABLE = ("jax", "jaxlib")


class Copies:
    """Copies the arrays of one call. An array that occurs twice is copied once.

    Attributes:
        size: the size of all copies, in bytes.
    """

    def __init__(self) -> None:
        self.size = 0
        self._made: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        """A value with copies of its arrays, also of those in tuples, lists and dicts, and of torch modules.

        NumPy arrays keep the order of their axes in memory. torch tensors stay on their device, detached; the copy
        is queued on its current stream. Arrays of numba.cuda, and others that cannot copy themselves, become
        NumPy arrays. Other values are kept as they are.
        """
        if type(value) in _PLAIN:
            return value
        known = self._made.get(id(value))
        if known is not None:
            return known[1]
        made = self._copied(value)
        if made is not value:
            self._made[id(value)] = (value, made)
        return made

    def _copied(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            self.size += value.nbytes
            return value.copy(order="K")
        if isinstance(value, tuple):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if isinstance(value, Mapping):
            return {name: self.of(item) for name, item in value.items()}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            self.size += value.nbytes
            made = value.detach().clone()
            if made.device.type != "cuda":
                return made
            with torch.cuda.device(made.device):
                event = torch.cuda.Event()
                event.record()
            return Later(made, event)
        if torch is not None and isinstance(value, torch.autograd.function.FunctionCtx):
            return Context(value)
        if torch is not None and isinstance(value, torch.nn.Module):
            held = (*value.parameters(), *value.buffers())
            self.size += sum(tensor.nbytes for tensor in held)
            return copy.deepcopy(value)
        if not is_array(value):
            return value
        made = self._on_device(value)
        self.size += int(getattr(value, "nbytes", 0) or getattr(made, "nbytes", 0))
        return made

    def _on_device(self, value: Any) -> Any:
        if _framework(value) in _IMMUTABLE:
            return value
        if hasattr(value, "copy_to_host"):
            return _numba_copy(value)
        if _framework(value) == "cupy":
            event = sys.modules["cupy"].cuda.Event()
            made = value.copy()
            event.record()
            return Later(made, event)
        if not hasattr(value, "__dlpack__"):
            import numba.cuda  # reads __cuda_array_interface__

            read: Any = numba.cuda.as_cuda_array
            return _numba_copy(read(value))
        return _on_host(value).copy()


class Later:
    """A copy that its device may not have made yet.

    Args:
        value: the copy.
        event: an event of the device, recorded after the copy.
    """

    __slots__ = ("event", "value")

    def __init__(self, value: Any, event: Any) -> None:
        self.value, self.event = value, event

    def ready(self) -> Any:
        """Wait for the copy, and return it for use on the current stream. Converts numba.cuda arrays to NumPy."""
        self.event.synchronize()
        if hasattr(self.value, "copy_to_host"):
            return self.value.copy_to_host()
        if _framework(self.value) == "torch":
            self.value.record_stream(sys.modules["torch"].cuda.current_stream(self.value.device))
        return self.value


def _numba_copy(value: Any) -> Any:
    """A copy in device memory, ordered on the default stream; for a strided array, a copy on the host."""
    if not (value.is_c_contiguous() or value.is_f_contiguous()):
        return value.copy_to_host()
    cuda: Any = sys.modules["numba.cuda"]
    made = cuda.device_array_like(value)
    made.copy_to_device(value)
    event = cuda.event()
    event.record()
    return Later(made, event)


def ready(value: Any) -> Any:
    """A value that :class:`Copies` made, after all copies are complete."""
    if isinstance(value, Later):
        return value.ready()
    if isinstance(value, tuple):
        items = [ready(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [ready(item) for item in value]
    if isinstance(value, dict):
        return {name: ready(item) for name, item in value.items()}
    return value


class Context:
    """Replaces the ``ctx`` of an autograd function in calls of the reference. It keeps no tensor alive.

    The reference can read attributes that were set before the call. The caller does not see what the reference
    sets.
    """

    def __init__(self, ctx: Any) -> None:
        self.needs_input_grad = getattr(ctx, "needs_input_grad", ())
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Do nothing: there is no forward-mode derivative."""

    def mark_dirty(self, *tensors: Any) -> None:
        """Do nothing: there is no graph."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Do nothing: there is no graph."""

    def set_materialize_grads(self, value: bool) -> None:
        """Do nothing: there is no graph."""


_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None)})


def _framework(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def is_array(value: Any) -> bool:
    """Whether a value is an array of any framework."""
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
        return True
    return hasattr(value, "__cuda_array_interface__")  # last: raises for a CUDA tensor of torch that requires grad


def is_traced(value: Any) -> bool:
    """Whether an array has no values, because a transformation of JAX or torch.func (jit,
    grad, vmap) is tracing the function."""
    if isinstance(value, np.ndarray):
        return False
    framework = _framework(value)
    if framework == "jax":
        return isinstance(value, sys.modules["jax"].core.Tracer)
    return framework == "torch" and bool(sys.modules["torch"]._C._functorch.is_functorch_wrapped_tensor(value))


def arrays_in(*values: Any) -> Iterator[Any]:
    """The arrays among arguments, also in tuples, lists and dicts, in order."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif type(value) in _PLAIN:
            continue
        elif isinstance(value, list | tuple):
            yield from arrays_in(*value)
        elif isinstance(value, Mapping):
            yield from arrays_in(*value.values())
        elif is_array(value):
            yield value


def size_of(values: Iterator[Any]) -> int:
    """The total size of arrays, in bytes."""
    return sum(int(getattr(value, "nbytes", 0)) for value in values)


def host_view(value: Any) -> Array | None:
    """A NumPy view of an array; None if it is on a device, or if NumPy could only read a copy."""
    if isinstance(value, np.ndarray):
        return value
    if _framework(value) != "torch" or value.device.type != "cpu":
        return None
    tensor = value.detach()
    if tensor.dtype.itemsize < 4 and tensor.is_floating_point():  # NumPy has no bfloat16 and float8
        return None if tensor.numel() > _SMALL else np.asarray(tensor.float().numpy())
    return np.asarray(tensor.numpy())


_SMALL = 1 << 16
"""The maximum number of elements of a narrow float dtype that are converted for a detector."""


def as_host(value: Any) -> Array:
    """An array of any framework as a NumPy array; waits for its device.

    Raises:
        NotAnArray: it is not an array, or has a dtype that kcheck does not have.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value
    return _on_host(value)


def _on_host(value: Any) -> Array:
    from kcheck.frameworks import as_numpy  # imports ml_dtypes, which `import kcheck.monitor` must not

    return as_numpy(value)
