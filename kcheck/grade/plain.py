"""What a candidate may know of a problem."""

from __future__ import annotations

from dataclasses import replace

from kcheck.model import OpSpec


def bare(spec: OpSpec) -> OpSpec:
    """The spec without everything that a candidate must not know: references, values, seeds, invariants, and
    functions, which belong to the grader's process."""
    nowhere = replace(spec.reference, path="", name="", given=None)
    inputs = {name: replace(each, values=()) for name, each in spec.inputs.items()}
    launcher = spec.launcher
    if launcher is not None and launcher.given is not None:
        launcher = replace(launcher, given=None)
    return replace(
        spec,
        reference=nowhere,
        launcher=launcher,
        judged=False,
        inputs=inputs,
        invariants=(),
        examples=(),
        seed=0,
        artifact=None,
    )
