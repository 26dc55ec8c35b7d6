"""Loads the user's kernels and launchers, and selects a launcher's arguments. ``kcheck.specfile`` checks whether
their parameters match the spec when it reads the spec, without running them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from kcheck.device.base import Backend
from kcheck.device.places import function_place
from kcheck.errors import KernelError
from kcheck.model import OpSpec
from kcheck.specfile import load_function

_KEPT_OPTIONS = frozenset({"fastmath", "link", "extensions", "launch_bounds"})
"""Options of ``@cuda.jit`` that unoptimized code has, too."""


def load_kernel(spec: OpSpec, backend: Backend) -> Any:
    """The kernel of a ``launch:``.

    Raises:
        KernelError: the kernel cannot be loaded, or is not a kernel of numba.cuda.
    """
    assert spec.kernel is not None
    kernel: Any = load_function(spec.root, spec.kernel)
    for_cpu = type(kernel).__name__ == "CPUDispatcher"  # Numba's own class for @jit and @njit
    if for_cpu or not backend.is_kernel(kernel):
        place, name = function_place(kernel) or spec.kernel.span, spec.kernel.name
        if for_cpu:
            raise KernelError(place, f"{name} is compiled for the CPU by @njit", "decorate it with @cuda.jit")
        if hasattr(kernel, "py_func"):
            what = f"{name} is a device function, which only kernels call"
            raise KernelError(place, what, "remove device=True")
        raise KernelError(place, f"{name} is not a kernel", "decorate it with @cuda.jit")
    return _without_optimizations(kernel) if spec.debug_code else kernel


def _without_optimizations(kernel: Any) -> Any:
    """The kernel in a dispatcher whose code is not optimized; itself in the simulator, which has no such code."""
    options = getattr(kernel, "targetoptions", None)
    if options is None:
        return kernel
    found = kernel.__dict__.get("_kcheck_debug")
    if found is None:
        jit = import_module("numba.cuda").jit
        changed = {name: value for name, value in options.items() if name in _KEPT_OPTIONS}
        found = kernel._kcheck_debug = jit(kernel.py_func, debug=True, opt=False, **changed)
    return found


def load_launcher(spec: OpSpec) -> Callable[..., object]:
    """The launcher.

    Raises:
        KernelError: it cannot be loaded.
    """
    assert spec.launcher is not None
    launcher: Callable[..., object] = load_function(spec.root, spec.launcher)
    return launcher


def keywords(launcher: Callable[..., object], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the launcher's signature names.

    NumPy's scalars become Python numbers if the launcher's file names a Triton kernel: Triton accepts only those.
    """
    given = {name: values[name] for name in inspect.signature(launcher).parameters if name in values}
    known = getattr(launcher, "__globals__", {}).values()
    if any(type(value).__module__.startswith("triton.runtime") for value in known):
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    return given
