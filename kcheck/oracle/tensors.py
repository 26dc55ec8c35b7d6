"""Evaluates the PyTorch operations of a reference as a correct kernel might: each result is rounded.

The same :class:`Arithmetic` rounds the results of NumPy's functions (:mod:`kcheck.oracle.rounded`). Operations are
seen below autograd, as calls of ATen's operators, regardless of how the tensors were made. An operator is one of
these:

* exact, elementwise, linear in its operands, or one that has a function (:mod:`kcheck.oracle.operators`);
* composed of others, by PyTorch's own decompositions;
* unknown: its result is rounded as a whole, and its name is in ``Arithmetic.unseen``.

PyTorch is used only if the reference has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.oracle.arithmetic import Arithmetic
from kcheck.oracle.operators import EXACT, LINEAR, OPERATORS, Arguments, roundings
from kcheck.oracle.rounded import FUNCTION_ROUNDINGS, as_rounded

Array: TypeAlias = npt.NDArray[Any]

_TRANSFORMS = ("aten::linalg_", "aten::_linalg_", "aten::_fft_")


@contextmanager
def tensors_under(arithmetic: Arithmetic) -> Iterator[None]:
    """Round the results of PyTorch's operations in this thread, if PyTorch has been imported."""
    torch = sys.modules.get("torch")
    with RoundingModes(torch, arithmetic).active() if hasattr(torch, "Tensor") else nullcontext():
        yield


class RoundingModes:
    """The two modes of PyTorch that evaluate under an arithmetic: one for operators, one for ``Tensor.numpy``."""

    def __init__(self, torch: Any, arithmetic: Arithmetic) -> None:
        self.torch = torch
        self.arithmetic = arithmetic
        self._within: set[Any] = set()

    @contextmanager
    def active(self) -> Iterator[None]:
        from torch.overrides import TorchFunctionMode
        from torch.utils._python_dispatch import TorchDispatchMode

        modes, arithmetic = self, self.arithmetic
        leaves = (self.torch.Tensor.numpy, self.torch.Tensor.__array__)

        class Operators(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return modes.evaluate(func, args, dict(kwargs or {}))

        class Leaves(TorchFunctionMode):  # type: ignore[misc]
            """What becomes a NumPy array remains under the arithmetic."""

            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                return as_rounded(arithmetic, result) if func in leaves else result

        self._operators = Operators()
        with Leaves(), self._operators:
            yield

    def evaluate(self, operator: Any, args: Any, kwargs: Arguments) -> Any:
        """The rounded results of an operator."""
        if not any(map(self._is_inexact, self._tensors((args, kwargs)))):
            return operator(*args, **kwargs)
        self.arithmetic.uses += 1
        with np.errstate(all="ignore"):
            return self._evaluate(operator, args, kwargs)

    def _evaluate(self, operator: Any, args: Any, kwargs: Arguments) -> Any:
        schema = operator._schema
        base = schema.name.partition("::")[2]
        is_in_place = base.endswith("_") and not base.endswith("__")
        name = base.strip("_")
        given: Arguments = {**dict(zip((a.name for a in schema.arguments), args, strict=False)), **kwargs}
        if name == "local_scalar_dense":
            self.arithmetic.unseen.add("Tensor.item")
            return operator(*args, **kwargs)
        if self._is_exact(schema, name) or (name == "index_put" and not given.get("accumulate")):
            return operator(*args, **kwargs)
        errors = roundings(name, given)
        if errors is not None:
            return self.rounded(operator(*args, **kwargs), errors)
        if any(argument.is_out for argument in schema.arguments):
            return self._as_a_whole(operator, args, kwargs)
        if is_in_place:
            return self._in_place(operator, base, args, kwargs)
        if name in OPERATORS:
            result = OPERATORS[name](self, operator, given)
            if result is not NotImplemented:
                return result
        if name in LINEAR or name == "index_put":
            names = LINEAR.get(name, ("self", "values"))
            return self._linear(operator, args, kwargs, given, names)
        parts = self._in_parts(operator, args, kwargs)
        if parts is not NotImplemented:
            return parts
        if self.torch.Tag.pointwise in operator.tags:
            return self.rounded(operator(*args, **kwargs), FUNCTION_ROUNDINGS)
        return self._as_a_whole(operator, args, kwargs)

    def _as_a_whole(self, operator: Any, args: Any, kwargs: Arguments) -> Any:
        """The result of an operator of which only the size of its errors is known. Those of linear algebra and
        Fourier transforms scale with the largest element."""
        result = operator(*args, **kwargs)
        name = operator._schema.name
        if any(map(self._is_inexact, self._tensors(result))) and not name.startswith(_TRANSFORMS):
            self.arithmetic.unseen.add(name.replace("aten::", "torch's ").replace("::", "."))
        return self.rounded(result, 1.0, normwise=True)

    @staticmethod
    def _is_exact(schema: Any, name: str) -> bool:
        views = [result.alias_info is not None and not result.alias_info.is_write for result in schema.returns]
        return all(views) or name in EXACT or name.endswith("_like") or name.startswith(("new_", "empty"))

    def _in_place(self, operator: Any, base: str, args: Any, kwargs: Arguments) -> Any:
        """An operator that writes to its first operand, by the one that returns a new tensor."""
        functional = getattr(getattr(self.torch.ops.aten, base[:-1], None), operator._overloadname, None)
        if functional is None:
            return self._as_a_whole(operator, args, kwargs)
        return args[0].copy_(self._evaluate(functional, args, kwargs))

    def _in_parts(self, operator: Any, args: Any, kwargs: Arguments) -> Any:
        """The result of the operators of which one is composed, each rounded; NotImplemented if it is not."""
        if operator in self._within:
            return NotImplemented
        self._within.add(operator)
        try:
            with self._operators:
                table = getattr(getattr(self.torch, "_decomp", None), "decomposition_table", {})
                if operator in table:
                    return table[operator](*args, **kwargs)
                return operator.decompose(*args, **kwargs)
        finally:
            self._within.discard(operator)

    def composed(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result of a formula, each operation rounded."""
        with self._operators:
            return function(*args)

    # --- tensors as arrays

    def _is_inexact(self, tensor: Any) -> bool:
        return bool(tensor.is_floating_point() or tensor.is_complex())

    def _tensors(self, value: Any) -> Iterator[Any]:
        if isinstance(value, self.torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            for part in value:
                yield from self._tensors(part)
        elif isinstance(value, dict):
            yield from self._tensors(tuple(value.values()))

    def array(self, tensor: Any) -> Array:
        """The values of a tensor as float64 or complex128; other dtypes unchanged."""
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        if self._is_inexact(tensor):
            plain = plain.to(self.torch.complex128 if tensor.is_complex() else self.torch.float64)
        return np.asarray(plain.numpy())

    def tensor(self, array: Any, like: Any) -> Any:
        """A tensor of the dtype and on the device of another one."""
        return self.torch.from_numpy(np.array(array, order="C")).to(dtype=like.dtype, device=like.device)

    def rounded(self, result: Any, roundings: float, normwise: bool = False) -> Any:
        """New tensors, rounded where they are."""
        for tensor in self._tensors(result):
            if self._is_inexact(tensor) and tensor.layout is self.torch.strided and tensor.numel():
                array = self.array(tensor)
                if normwise and array.ndim:
                    length = max(1, array.shape[-1])
                    scale = np.abs(array).max(axis=-1, keepdims=True) * np.sqrt(length)
                    moved = self.arithmetic.after(array, noise=np.broadcast_to(scale, array.shape))
                else:
                    moved = self.arithmetic.after(array, roundings, checked=roundings == 1.0)
                tensor.copy_(self.tensor(moved, tensor))
        return result

    def _linear(
        self, operator: Any, args: Any, kwargs: Arguments, given: Arguments, names: tuple[str, ...]
    ) -> Any:
        linear = [name for name in names if isinstance(given.get(name), self.torch.Tensor)]
        positions = [argument.name for argument in operator._schema.arguments]

        def function(*parts: Array) -> Array:
            tensors = {n: self.tensor(part, given[n]) for n, part in zip(linear, parts, strict=True)}
            positional = [tensors.get(name, value) for name, value in zip(positions, args, strict=False)]
            named = {name: tensors.get(name, value) for name, value in kwargs.items()}
            return self.array(operator(*positional, **named))

        like = given[linear[0]]
        return self.tensor(self.arithmetic.contraction(function, *(self.array(given[n]) for n in linear)), like)
