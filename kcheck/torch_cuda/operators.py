"""Operators that a program implements in Python for CUDA, with ``torch.library``.

PyTorch sees tensors of the CPU, so it would look for an implementation for the CPU: it finds none, or its own, and
the program's kernels would not run. Here an implementation for CUDA is registered for the CPU; each call chooses
between it and the one that was there before, by the device of its tensors.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.torch_cuda.storages import Storages, tensors_in

Kernel = Callable[..., Any]
_HOST_KEYS = {
    "CUDA": "CPU",
    "AutogradCUDA": "AutogradCPU",
    "CPU": "CPU",
    "AutogradCPU": "AutogradCPU",
}
_CANNOT_CHOOSE = (
    "kcheck: {} also has an implementation for the CPU: with PyTorch {} kcheck cannot choose between them, and "
    "does not run the program's implementation for {}; install a newer PyTorch, with torch.library.get_kernel"
)


class TorchCall(threading.local):
    """What the current call of PyTorch in this thread is for."""

    makes_device_tensor = False  #: it makes a tensor from nothing, on the device
    is_copy_to_host = False  #: it is kcheck's own
    operands: Sequence[Any] = ()

    @contextlib.contextmanager
    def of(self, **state: Any) -> Iterator[None]:
        """State these attributes for a ``with`` block; those not given are as at first."""
        before = dict(vars(self))
        vars(self).clear()
        vars(self).update(state)
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)


@contextlib.contextmanager
def within(torch: Any, mode: Any) -> Iterator[None]:
    """The mode is on in this thread. PyTorch turns it off during each call that the mode handles, also for the
    program's own functions that the call runs."""
    if mode in torch.overrides._get_current_function_mode_stack():
        yield
    else:
        with mode:
            yield


@dataclass
class _Implementation:
    """One that the program has registered, for the device or for the CPU."""

    library: weakref.ref[Any]
    is_for_device: bool
    with_keyset: bool
    function: Kernel

    @property
    def is_there(self) -> bool:
        """Whether the library that registered it still exists."""
        library = self.library()
        return library is not None and library.m is not None


class _Operator:
    """The implementations of one operator for one dispatch key of the CPU, oldest first."""

    def __init__(self, torch: Any, name: str, key: str) -> None:
        self._torch = torch
        self.name = name
        self._key = key
        self._own: list[_Implementation] = []
        self._builtin: Any = None

    def add(self, implementation: _Implementation) -> None:
        """Add one; the newest is used.

        Raises:
            LookupError: this version of PyTorch does not let one call PyTorch's own implementation.
        """
        self._own = [own for own in self._own if own.is_there]
        if not self._own:
            self._builtin = self._found()
        self._own.append(implementation)

    def _found(self) -> Any:
        dispatcher = self._torch._C
        if not dispatcher._dispatch_has_kernel(self.name) or (
            not dispatcher._dispatch_has_computed_kernel_for_dispatch_key(self.name, self._key)
        ):
            return None
        if not hasattr(self._torch.library, "get_kernel"):
            raise LookupError(self.name)
        return self._torch.library.get_kernel(self.name, self._key)

    def run(self, on_device: bool, keyset: Any, arguments: Any, options: Any) -> Any:
        """Call the implementation for the device or for the CPU."""
        for own in reversed(self._own):
            if own.is_there and own.is_for_device == on_device:
                return own.function(*([keyset] if own.with_keyset else []), *arguments, **options)
        if self._builtin is None:
            where = "the CPU" if on_device else "CUDA"
            raise NotImplementedError(f"{self.name} is implemented for {where} only; no argument is there")
        return self._builtin.call_boxed(keyset, *self._with_tensors(arguments), **options)

    @functools.cached_property
    def _kinds(self) -> list[str]:
        name, _, overload = self.name.partition(".")
        return [str(argument.type) for argument in self._torch._C._get_schema(name, overload).arguments]

    def _with_tensors(self, arguments: Sequence[Any]) -> Iterator[Any]:
        """PyTorch gives Python a number instead of a tensor that it has made of a number; this makes it again."""
        given = [value for value in arguments if isinstance(value, self._torch.Tensor)]
        for kind, value in zip(self._kinds, arguments, strict=False):
            is_tensor = kind == "Tensor" and isinstance(value, (bool, int, float, complex))
            yield self._as_tensor(value, given) if is_tensor else value

    def _as_tensor(self, number: complex, given: Sequence[Any]) -> Any:
        """A tensor of a number, which gives the result the dtype that the number gives it, next to ``given``.

        PyTorch computes with more bits of the number than the result has. So does this, unless no tensor has axes.
        """
        torch = self._torch
        if not given:
            return torch.tensor(number, device="cpu")
        has_axes = any(tensor.dim() for tensor in given)
        common = functools.reduce(torch.promote_types, (tensor.dtype for tensor in given))
        dtype = torch.result_type(torch.empty((1,) * has_axes, dtype=common, device="cpu"), number)
        if has_axes and dtype == common:  # beside it, a tensor without axes has no influence on the dtype
            dtype = {bool: torch.bool, int: torch.int64, float: torch.float64}.get(type(number), torch.complex128)
        return torch.tensor(number, dtype=dtype, device="cpu")


def patch_library(torch: Any, storages: Storages, mode: Any, call: TorchCall) -> None:
    """Let ``Library.impl``, which ``custom_op`` and the others use, accept implementations for CUDA."""
    library = torch.library.Library
    plain = library.impl
    operators: dict[tuple[str, str], _Operator] = {}

    @functools.wraps(plain)
    def impl(
        self: Any, op_name: Any, fn: Kernel, dispatch_key: Any = "", *, with_keyset: bool = False, **options: Any
    ) -> None:
        key = getattr(dispatch_key, "name", dispatch_key) or self.dispatch_key
        if not callable(fn) or fn is torch.library.fallthrough_kernel or key == "Meta":
            plain(self, op_name, fn, dispatch_key, with_keyset=with_keyset, **options)
            return
        own = _in_mode(torch, mode, fn)
        host_key = _HOST_KEYS.get(key)
        if host_key is None:
            plain(self, op_name, own, dispatch_key, with_keyset=with_keyset, **options)
            return
        name = _qualified(self, op_name)
        operator = operators.setdefault((name, host_key), _Operator(torch, name, host_key))
        try:
            operator.add(_Implementation(weakref.ref(self), key != host_key, with_keyset, own))
        except LookupError:
            print(_CANNOT_CHOOSE.format(name, torch.__version__, key), file=sys.stderr)
            return
        with warnings.catch_warnings():  # it does not replace the other one
            warnings.simplefilter("ignore", UserWarning)
            plain(self, op_name, _chooser(torch, storages, call, operator), host_key, with_keyset=True)

    library.impl = impl


def _qualified(library: Any, op_name: Any) -> str:
    """The name of an operator with its namespace, such as ``aten::add.Tensor``."""
    name = str(op_name if isinstance(op_name, str) else op_name._name)
    return name if "::" in name else f"{library.ns}::{name}"


def _in_mode(torch: Any, mode: Any, fn: Kernel) -> Kernel:
    @functools.wraps(fn)
    def own(*arguments: Any, **options: Any) -> Any:
        with within(torch, mode):
            return fn(*arguments, **options)

    return own


def _chooser(torch: Any, storages: Storages, call: TorchCall, operator: _Operator) -> Kernel:
    """A kernel that runs the implementation for the device if an argument is there."""
    host, cuda = torch.device("cpu"), torch.device("cuda", 0)

    def choose(keyset: Any, *arguments: Any, **options: Any) -> Any:
        operands = list(tensors_in(torch, (arguments, options)))
        on_device = any(map(storages.is_on_device, operands)) if operands else call.makes_device_tensor
        if call.is_copy_to_host:
            on_device = False
        if on_device and not operands:  # the mode has replaced the device
            arguments = tuple(cuda if value == host else value for value in arguments)
            options = {name: cuda if value == host else value for name, value in options.items()}
        with call.of(is_copy_to_host=call.is_copy_to_host):
            return operator.run(on_device, keyset, arguments, options)

    return choose
