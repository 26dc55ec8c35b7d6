"""Derivatives as torch, JAX and TensorFlow compute them: reverse mode, from weights of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.frameworks.arrays import as_numpy
from kcheck.frameworks.passing import FrameworkMissing, passed_array
from kcheck.model import Framework

Array: TypeAlias = npt.NDArray[Any]
Named: TypeAlias = Callable[[object], Mapping[str, object]]


def derivatives(
    function: Callable[..., object],
    given: Mapping[str, Any],
    by: Sequence[str],
    weights: Mapping[str, Array],
    named: Named,
    framework: Framework,
) -> dict[str, Array]:
    """The derivatives of ``sum(output * c)``.

    Args:
        given: the arguments, arrays of the framework among them.
        by: the arguments to differentiate by, real floating-point arrays.
        weights: c, by output.
        named: maps what the function returns to its outputs by name.

    Returns:
        By argument, an array of its shape and dtype; zeros if no output depends on it.

    Raises:
        FrameworkMissing: the framework has no derivatives.
        Exception: whatever the function or its backward pass raises.
    """
    if framework.name not in _MODES:
        what = f"gradients are not supported for framework {framework.name}"
        raise FrameworkMissing(f"{what}; use framework: torch or jax, or remove 'gradients'")
    found = _MODES[framework.name](function, dict(given), tuple(by), weights, named, framework)
    return {name: as_numpy(array, f"the derivative by {name}") for name, array in found.items()}


def _torch(
    function: Callable[..., object],
    given: dict[str, Any],
    by: tuple[str, ...],
    weights: Mapping[str, Array],
    named: Named,
    framework: Framework,
) -> dict[str, Any]:
    for name in by:
        given[name] = given[name].detach().requires_grad_(True)
    return _from_graph(named(function(**given)), {name: given[name] for name in by}, weights)


def _from_graph(
    outputs: Mapping[str, Any], inputs: Mapping[str, Any], weights: Mapping[str, Array], keep: bool = False
) -> dict[str, Any]:
    """The derivatives of ``sum(output * c)``, from torch's autograd graph.

    Args:
        keep: keep the graph, if possible, so that the caller can differentiate again. The backward pass of a
            compiled function may reuse the memory of the graph; in that case the graph is freed.
    """
    import torch  # type: ignore[import-not-found,unused-ignore]

    attached = [name for name in weights if getattr(outputs[name], "requires_grad", False)]
    if not attached:
        return {name: torch.zeros_like(tensor) for name, tensor in inputs.items()}
    host = Framework("torch")
    upstream = [passed_array(weights[name].copy(), host)[0].to(outputs[name]) for name in attached]
    differentiate = partial(
        torch.autograd.grad,
        [outputs[name] for name in attached],
        list(inputs.values()),
        grad_outputs=upstream,
        allow_unused=True,
    )
    try:
        found = differentiate(retain_graph=keep)
    except RuntimeError as error:
        if not keep or "retain_graph=False" not in str(error):
            raise
        found = differentiate(retain_graph=False)
    return {
        name: torch.zeros_like(tensor) if gradient is None else gradient
        for (name, tensor), gradient in zip(inputs.items(), found, strict=True)
    }


def recorded_derivatives(
    outputs: Mapping[str, Any], inputs: Mapping[str, Any], weights: Mapping[str, Array], tape: Any = None
) -> dict[str, Array]:
    """The derivatives of ``sum(output * c)``, from what the framework recorded while it computed the outputs.

    Args:
        outputs: tensors by name: of torch, or of TensorFlow, computed under the tape.
        inputs: real floating-point tensors by name, from which the outputs were computed.
        weights: c, by output.
        tape: TensorFlow's ``GradientTape``, persistent.

    Returns:
        By input, an array of its shape and dtype; zeros if no output depends on it.

    Raises:
        Exception: whatever the backward pass raises.
    """
    if tape is None:
        found = _from_graph(outputs, inputs, weights, keep=True)
    else:
        targets = [outputs[name] for name in weights]
        scales = [c.astype(outputs[name].dtype.as_numpy_dtype) for name, c in weights.items()]
        gradients = tape.gradient(targets, list(inputs.values()), scales, "zero")
        found = dict(zip(inputs, gradients, strict=True))
    return {name: as_numpy(array, f"the derivative by {name}") for name, array in found.items()}


def _jax(
    function: Callable[..., object],
    given: dict[str, Any],
    by: tuple[str, ...],
    weights: Mapping[str, Array],
    named: Named,
    framework: Framework,
) -> dict[str, Any]:
    import jax  # type: ignore[import-not-found,unused-ignore]

    def run(*arrays: Any) -> tuple[object, ...]:
        outputs = named(function(**{**given, **dict(zip(by, arrays, strict=True))}))
        return tuple(outputs[name] for name in weights)

    _, pull = jax.vjp(run, *(given[name] for name in by))
    found = pull(tuple(passed_array(np.array(c), framework)[0] for c in weights.values()))
    return dict(zip(by, found, strict=True))


_MODES: dict[str, Callable[..., dict[str, Any]]] = {"torch": _torch, "jax": _jax}
