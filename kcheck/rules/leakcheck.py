"""Memory that a program does not free."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Memory that is never freed",
    why=(
        "A program allocates device memory, pinned or managed memory, or an array, and ends, or resets the "
        "device, without freeing it. In a program that runs for long, such allocations fill the memory of the "
        "GPU. It is off by default: many programs leave this to their end. Turn it on with "
        "`kcheck exec --sanitize leakcheck`."
    ),
    fix="Call cudaFree, cudaFreeHost or cudaFreeArray when the memory is no longer needed.",
    symptom="leaks",
    no_example="It is a rule for programs under `kcheck exec`: see the page about CUDA C++ programs.",
)
