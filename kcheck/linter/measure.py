"""Metrics of compiled kernels."""

from __future__ import annotations

from collections import Counter

from kcheck.errors import PtxError
from kcheck.linter.advice import advice, local_bytes
from kcheck.linter.families import computes_in_float64, divides, family, is_fused, is_unfused, prints
from kcheck.linter.occupancy import occupancy
from kcheck.linter.ptx_text import find_entry
from kcheck.linter.sass_families import count_sass
from kcheck.linter.sass_text import find_function
from kcheck.model import Index3
from kcheck.model.compiled import CompiledKernel
from kcheck.model.metrics import FAMILIES, Metrics
from kcheck.ptx.abi import row_of
from kcheck.ptx.syntax.ast import Label
from kcheck.ptx.syntax.parser import parse


def measure(kernel: CompiledKernel, block: Index3 | None = None, shared: int = 0) -> Metrics:
    """The metrics of one specialization.

    Args:
        block: threads per block that it is launched with; None if unknown: then there is no occupancy.
        shared: bytes of dynamic shared memory that the launch adds.
    """
    types = ", ".join(str(part) for part in kernel.signature)
    made = Metrics(kernel.kernel, kernel.place, kernel.target, types, problem=kernel.problem)
    if kernel.problem:
        return made
    try:
        module = parse(kernel.ptx)
        entry = module.functions.get(kernel.entry)
        if entry is None or entry.body is None:
            raise PtxError(f"the compiler's PTX has no entry {kernel.entry}")
        found = advice(kernel, module, entry, 32 if block is None else row_of(block))
    except PtxError as fault:
        return Metrics(kernel.kernel, kernel.place, kernel.target, types, problem=str(fault))
    sass = find_function(kernel.sass, kernel.entry)
    operations = [s for s in entry.body if not isinstance(s, Label)]
    counts = Counter(family(operation) for operation in operations)
    text = find_entry(kernel.ptx, kernel.entry)
    resources = kernel.resources
    held = None
    if block is not None and resources is not None and 0 not in block:
        threads = block[0] * block[1] * block[2]
        held = occupancy(kernel.target, threads, resources.registers, resources.shared + shared)
    return Metrics(
        kernel=kernel.kernel,
        place=kernel.place,
        target=kernel.target,
        types=types,
        resources=resources,
        instructions=text.instructions if text is not None else len(operations),
        families={name: counts[name] for name in FAMILIES if counts[name]},
        local=local_bytes(entry),
        float64=sum(computes_in_float64(operation) for operation in operations),
        fused=sum(is_fused(operation) for operation in operations),
        unfused=sum(is_unfused(operation) for operation in operations),
        divisions=sum(divides(operation) for operation in operations),
        prints=sum(prints(operation) for operation in operations),
        occupancy=held,
        sass=count_sass(sass) if sass is not None else None,
        advice=found,
    )
