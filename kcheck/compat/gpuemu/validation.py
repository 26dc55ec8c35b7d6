"""gpuemu's context managers, which validate the output of an op that runs in their block."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from kcheck import api
from kcheck.compat.gpuemu.client import Client
from kcheck.compat.gpuemu.given import GivenCall
from kcheck.compat.gpuemu.ops import ClientError, by_keyword, find, reference_of
from kcheck.compat.gpuemu.results import ValidationResult, result_of
from kcheck.compat.gpuemu.rng import random_seed
from kcheck.frameworks import as_numpy, may_flush


class ValidationError(AssertionError):
    """An op failed; ``error.result`` has the details."""

    def __init__(self, result: ValidationResult) -> None:
        self.result = result
        super().__init__(f"{result.op_name} failed: {'; '.join(result.failures[:3])}")


class Context(dict[str, Any]):
    """The object of a ``with`` block: set ``ctx["output"] = y`` or
    ``ctx.set_output(y)``; then read ``ctx.result``."""

    def set_output(self, output: object) -> None:
        """Set the output of the op."""
        self["output"] = output

    @property
    def result(self) -> ValidationResult:
        """The result, after the block.

        Raises:
            ClientError: the block has not ended.
        """
        if "result" not in self:
            raise ClientError("the op is validated at the end of the block; read the result after it")
        found: ValidationResult = self["result"]
        return found


@contextmanager
def validate_op(
    client: Client | str,
    op_name: str | None = None,
    inputs: Mapping[str, object] | None = None,
    raise_on_failure: bool = True,
    **kwargs: Any,
) -> Iterator[Context]:
    """Validate the output that the block sets.

    >>> import numpy as np
    >>> from kcheck.compat import gpuemu
    >>> x = np.zeros((2, 4), np.float32)
    >>> with gpuemu.validate_op("softmax", inputs={"x": x}) as ctx:
    ...     ctx.set_output(np.full_like(x, 0.25))
    >>> ctx.result.passed
    True

    Args:
        client: a client, followed by the name of the op, or only the name.
        raise_on_failure: raise ValidationError; otherwise only ``ctx.result`` shows whether it passed.
        kwargs: as for :meth:`Client.validate_op`, such as ``atol`` and ``rtol``.

    Raises:
        ValidationError: the output is wrong.
        ClientError: the op is not known, or the block set no output.
    """
    with validated_block(client, op_name, inputs, None, raise_on_failure, **kwargs) as context:
        yield context


Derive: TypeAlias = Callable[[object, Mapping[str, Any]], Mapping[str, object]]


@contextmanager
def validated_block(
    client: Client | str,
    op_name: str | None,
    inputs: Mapping[str, object] | None,
    derive: Derive | None,
    raise_on_failure: bool = True,
    **kwargs: Any,
) -> Iterator[Context]:
    """As :func:`validate_op`.

    Args:
        derive: the derivatives of ``sum(output * c)`` by input, from the output of the block, and c by output.
            They are checked if the output passes.
    """
    asked, name = (Client(), client) if isinstance(client, str) else (client, op_name)
    if name is None:
        raise ClientError("validate_op needs the name of an op")
    flushes = may_flush(inputs or {})
    arrays = {each: as_numpy(value, f"the input {each}").copy() for each, value in (inputs or {}).items()}
    context = Context(inputs=dict(inputs or {}), output=None)
    yield context
    output = context["output"]
    if output is None:
        raise ClientError(f"{name}: the block set no output; assign it: ctx['output'] = y")
    seed = kwargs.pop("seed", None)
    how = {key: kwargs.pop(key) for key in ("dtype", "atol", "rtol") if key in kwargs}
    call = GivenCall(name, arrays, output, **how, kwargs=kwargs, flushes=flushes or may_flush(output))
    result = asked.judged(call, seed, None if derive is None else partial(derive, output))
    context["result"] = result
    if raise_on_failure and not result.passed:
        raise ValidationError(result)


class Calls:
    """The object of a :func:`validate` block: call it instead of the model.
    ``results`` has one result per call."""

    def __init__(self, model: Callable[..., object]) -> None:
        self._model = model
        self.calls: list[tuple[dict[str, Any], object]] = []
        self.results: list[ValidationResult] = []

    def __call__(self, *inputs: object) -> object:
        """Call the model and record the call."""
        before = _copied(inputs)
        output = self._model(*inputs)
        self.calls.append((before, output))
        return output


def _copied(inputs: tuple[object, ...]) -> dict[str, Any]:
    return {f"input{n}": as_numpy(value, f"argument {n}").copy() for n, value in enumerate(inputs)}


@contextmanager
def validate(
    client: Client,
    model: Callable[..., object],
    reference: str | Callable[..., object] = "cpu",
    dtype: str | None = None,
    reference_dtype: str | None = None,
    raise_on_failure: bool = True,
) -> Iterator[Calls]:
    """Validate every call of a model in the block.

    A ``torch.nn.Module`` is called as usual: a hook records its calls in the block. For any other function, call
    the object of the block: ``with validate(client, f, reference=g) as f: y = f(x)``.

    Args:
        reference: a NumPy function with the same positional arguments, which gets float64; ``cpu``: for a module,
            a float64 copy of it on the CPU; for a function, the reference of the op with its name.
        dtype, reference_dtype: not used: each output is judged in its own dtype, and the reference is float64.

    Raises:
        ValidationError: the output of a call was wrong.
        ClientError: there is no reference.
    """
    calls = Calls(model)
    hook = None
    if hasattr(model, "register_forward_hook"):
        hook = model.register_forward_hook(
            lambda _, inputs, output: calls.calls.append((_copied(inputs), _detached(output)))
        )
    try:
        yield calls
    finally:
        if hook is not None:
            hook.remove()
    name = getattr(model, "__name__", type(model).__name__)
    told = _reference(model, name, reference)
    for inputs, output in calls.calls:
        verdict = api.validate(name, inputs, output, _by_position(told, len(inputs)))
        calls.results.append(result_of(verdict, name, random_seed(), inputs, "contiguous"))
    wrong = [result for result in calls.results if not result.passed]
    if wrong and raise_on_failure:
        raise ValidationError(wrong[0])


def _detached(output: Any) -> Any:
    return output.detach().clone()


def _reference(
    model: Callable[..., object], name: str, reference: str | Callable[..., object]
) -> Callable[..., Any]:
    if not isinstance(reference, str):
        return reference
    if reference != "cpu":
        raise ClientError(f"there is no reference {reference!r}; use 'cpu', or pass a function")
    if not hasattr(model, "register_forward_hook"):
        op = find(name)
        function = reference_of(op, op.inputs, {})
        return lambda *inputs: function(**dict(zip(op.inputs, inputs, strict=True)))
    import torch  # type: ignore[import-not-found,unused-ignore]  # already imported: the model is a module

    module: Any = copy.deepcopy(model)
    whole = module.double().cpu()
    return lambda *inputs: as_numpy(whole(*(torch.from_numpy(array) for array in inputs)))


def _by_position(reference: Callable[..., Any], count: int) -> Callable[..., Any]:
    names = [f"input{number}" for number in range(count)]
    return by_keyword(reference, names, lambda function, inputs: function(*inputs.values()))
