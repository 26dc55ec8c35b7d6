"""An error of the CUDA API that a program does not look at."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="An error that the program does not read",
    why=(
        "A call of the CUDA API or a launch failed, and the program ignored the result: it did not use what the "
        "call returned, and did not call cudaGetLastError, cudaPeekAtLastError or cudaGetErrorString afterwards. "
        "A kernel whose launch failed did not run, so what the program computes from its outputs is wrong."
    ),
    fix="Check what each call returns, and call cudaGetLastError() after each launch.",
    level="warn",
    symptom="unread errors",
    no_example="It is a rule for programs under `kcheck exec`: see the page about CUDA C++ programs.",
)
