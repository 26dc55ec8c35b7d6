"""Derivatives as torch and JAX compute them: reverse mode, from weights of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    import torch  # type: ignore[import-not-found,unused-ignore]

    for name in by:
        given[name] = given[name].detach().requires_grad_(True)
    outputs: Mapping[str, Any] = named(function(**given))
    attached = [name for name in weights if getattr(outputs[name], "requires_grad", False)]
    if not attached:
        return {name: torch.zeros_like(given[name]) for name in by}
    found = torch.autograd.grad(
        [outputs[name] for name in attached],
        [given[name] for name in by],
        grad_outputs=[passed_array(weights[name].copy(), framework)[0] for name in attached],
        allow_unused=True,
    )
    return {
        name: torch.zeros_like(given[name]) if gradient is None else gradient
        for name, gradient in zip(by, found, strict=True)
    }


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
