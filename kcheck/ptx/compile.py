"""A kernel of a PTX module to LLVM IR, with the requested sanitizers."""

from __future__ import annotations

from kcheck.ptx.abi import Checks, Program
from kcheck.ptx.lowering import kernel
from kcheck.ptx.syntax.ast import Module

NO_CHECKS = Checks()


def lower(module: Module, entry: str, width: int, checks: Checks = NO_CHECKS, row: int = 1) -> Program:
    """The kernel ``entry`` as LLVM IR, with ``width`` lanes per vector.

    A kernel in which the lanes of a warp work together (shuffles, votes …) is lowered with the whole warp as one
    vector, whatever the requested width; ``Program.width`` is the actual one.

    Args:
        checks: the sanitizers to subscribe.
        row: the code will run in blocks in which this many lanes, or any smaller power of two, are neighbors
            along x (:func:`kcheck.ptx.abi.row_of`); 1: in any block.

    Raises:
        PtxError: no such kernel, an unsupported instruction or directive, or operands that do not fit.
        ValueError: a width that is not one of WIDTHS.
    """
    return kernel.lower(module, entry, width, checks, row)
