"""kcheck: find silent bugs in GPU kernels, with or without a GPU.

``import kcheck`` imports nothing but this file; each public name is loaded when it is first used. docs/python.md
describes them all.

>>> import kcheck
>>> kcheck.SeededRng(0).gen_u64()
45495894887209155
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcheck.version import __version__

if TYPE_CHECKING:
    from kcheck import hypothesis, monitor
    from kcheck.api import (
        Case,
        Execution,
        Failure,
        Graded,
        Lint,
        Minimized,
        Report,
        Reproduction,
        SeededRng,
        Spec,
        Verdict,
        assert_close,
        calibrate,
        case_of,
        cases,
        check,
        dtypes,
        exec,  # noqa: A004  # the name of the command
        grade,
        layouts,
        lint,
        load_spec,
        minimize,
        prove,
        reproduce,
        shapes,
        use,
        validate,
        values,
    )
    from kcheck.declaration import op
    from kcheck.device.kinds.named import kernels
    from kcheck.errors import (
        DeviceUnavailable,
        InternalError,
        KcheckError,
        KernelError,
        SpecError,
        UserError,
    )
    from kcheck.model import Comparison, Finding

__all__ = [
    "Case",
    "Comparison",
    "DeviceUnavailable",
    "Execution",
    "Failure",
    "Finding",
    "Graded",
    "InternalError",
    "KcheckError",
    "KernelError",
    "Lint",
    "Minimized",
    "Report",
    "Reproduction",
    "SeededRng",
    "Spec",
    "SpecError",
    "UserError",
    "Verdict",
    "__version__",
    "assert_close",
    "calibrate",
    "case_of",
    "cases",
    "check",
    "dtypes",
    "exec",
    "grade",
    "hypothesis",
    "kernels",
    "layouts",
    "lint",
    "load_spec",
    "minimize",
    "monitor",
    "op",
    "prove",
    "reproduce",
    "shapes",
    "use",
    "validate",
    "values",
]

_ERRORS = ("DeviceUnavailable", "InternalError", "KcheckError", "KernelError", "SpecError", "UserError")
_NOUNS = ("Comparison", "Finding")
_PACKAGES = ("hypothesis", "monitor")
_HOMES = {
    **dict.fromkeys(_ERRORS, "kcheck.errors"),
    **dict.fromkeys(_NOUNS, "kcheck.model"),
    "kernels": "kcheck.device.kinds.named",
    "op": "kcheck.declaration",
}
"""The modules of the public names that are not in ``kcheck.api``."""


if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module 'kcheck' has no attribute {name!r}")
        if name in _PACKAGES:
            return import_module(f"kcheck.{name}")
        found = getattr(import_module(_HOMES.get(name, "kcheck.api")), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
