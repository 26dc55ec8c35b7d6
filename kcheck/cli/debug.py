"""The prompt of ``kcheck reproduce --debug``."""

from __future__ import annotations

import code
from collections.abc import Mapping
from typing import Any

from kcheck.model import FunctionRef
from kcheck.oracle.reference import ReferenceFailed
from kcheck.oracle.truth import Truth
from kcheck.runner import Reproduced
from kcheck.specfile import load_function


def prompt(done: Reproduced) -> None:
    """Open a Python prompt with the objects of a case; return when the user leaves it."""
    names = names_of(done)
    listed = "\n".join(f"  {name:<10} {what}" for name, (_, what) in names.items())
    banner = f"Python prompt with:\n{listed}\nPress Ctrl-D to leave."
    code.interact(banner, local={"__name__": "__kcheck__", **{k: v for k, (v, _) in names.items()}}, exitmsg="")


def names_of(done: Reproduced) -> Mapping[str, tuple[Any, str]]:
    """The objects by name, each with a short description."""
    import numpy as np

    assert done.executed is not None
    spec, arrays, outcome = done.spec, done.executed.arrays, done.executed.outcome
    names: dict[str, tuple[Any, str]] = {
        "case": (done.case, "the recipe: dims, dtypes, layouts, values, params, seed"),
        "spec": (spec, f"the op spec, {spec.path}"),
        "verdict": (done.executed.verdict, "comparisons and findings"),
        "np": (np, "numpy"),
    }
    if spec.judged:
        names["reference"] = (_function(spec.root, spec.reference), f"the function {spec.reference}")
    if spec.kernel is not None:
        names["kernel"] = (_function(spec.root, spec.kernel), f"the kernel {spec.kernel}, launch it as usual")
    if spec.launcher is not None:
        names["launcher"] = (_function(spec.root, spec.launcher), f"the launcher {spec.launcher}")
    if spec.function is not None:
        names["function"] = (_function(spec.root, spec.function), f"the function {spec.function}")
    if arrays is None:
        return names
    inputs = {name: arrays.allocation(name).view() for name in spec.inputs}
    names["inputs"] = (inputs, f"by name: {', '.join(inputs)}; with the strides that the kernel gets")
    names["params"] = (dict(arrays.params), f"by name: {', '.join(arrays.params) or 'none'}")
    if outcome is not None and outcome.outputs:
        names["actual"] = (dict(outcome.outputs), f"by name: {', '.join(outcome.outputs)}")
    try:
        expected = Truth.of(spec, arrays).expected
        names["expected"] = (dict(expected), "by name, in float64")
    except ReferenceFailed as error:
        names["expected"] = (None, f"unavailable: {error}")
    return names


def _function(root: str, function: FunctionRef) -> Any:
    return load_function(root, function)
