"""The user's functions: are they what the spec takes them for, and with which arguments are they called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kcheck.device.base import Backend
from kcheck.device.places import function_place
from kcheck.errors import KernelError
from kcheck.model import Function, OpSpec
from kcheck.specfile.load import load_function
from kcheck.symbolic import did_you_mean


def load_kernel(spec: OpSpec, backend: Backend) -> Any:
    """The kernel of a ``launch:``.

    Raises:
        KernelError: it cannot be loaded, is no kernel, or takes another number of arguments than it is given.
    """
    assert spec.kernel is not None
    assert spec.launch is not None
    kernel: Any = load_function(spec.root, spec.kernel)
    if not backend.is_kernel(kernel):
        what = (
            "a device function, which only other kernels can call" if hasattr(kernel, "py_func") else "no kernel"
        )
        raise _error(kernel, spec.kernel, f"{spec.kernel.name} is {what}", "decorate it with @cuda.jit")
    parameters = [p for p in inspect.signature(kernel.py_func).parameters.values() if p.default is p.empty]
    least, most = len(parameters), len(inspect.signature(kernel.py_func).parameters)
    given = len(spec.launch.args)
    if not least <= given <= most:
        takes = ", ".join(p.name for p in parameters)
        raise _error(
            kernel,
            spec.kernel,
            f"{spec.kernel.name} takes {most} arguments ({takes}), launch.args of {spec.path} gives {given}",
            "give every argument once, in the kernel's order",
        )
    return kernel


def load_launcher(spec: OpSpec) -> Callable[..., object]:
    """The launcher, whose every parameter without a default names an input, output, param or dim.

    Raises:
        KernelError: it cannot be loaded, or asks for a name that the spec does not have.
    """
    assert spec.launcher is not None
    launcher: Callable[..., object] = load_function(spec.root, spec.launcher)
    known = [*spec.inputs, *spec.outputs, *spec.params, *spec.dims]
    for parameter in _parameters(launcher, spec.launcher):
        if parameter.name not in known and parameter.default is parameter.empty:
            raise _error(
                launcher,
                spec.launcher,
                f"{spec.launcher.name} asks for {parameter.name!r}, which {spec.path} does not declare",
                did_you_mean(parameter.name, known) or "name inputs, outputs, params and dims of the spec",
            )
    return launcher


def keywords(launcher: Callable[..., object], function: Function, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that the launcher's signature names."""
    return {p.name: values[p.name] for p in _parameters(launcher, function) if p.name in values}


def _parameters(launcher: Callable[..., object], function: Function) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(launcher).parameters.values()
    except (TypeError, ValueError):
        raise _error(launcher, function, f"{function.name} is not a plain Python function", "") from None
    odd = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if odd:
        raise _error(
            launcher,
            function,
            f"{function.name} takes {odd[0]}",
            "name each argument: a launcher is called by keyword",
        )
    return list(parameters)


def _error(found: Any, function: Function, what: str, mend: str) -> KernelError:
    place = function_place(found) or function.span
    return KernelError(f"{place}: {what}" + (f"; {mend}" if mend else ""))
