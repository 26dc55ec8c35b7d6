"""The instruction set: table rows for instructions that map values to values, handlers for those with effects."""

from kcheck.ptx.isa import (
    approximate,
    atomics,
    barrier,
    bits,
    compare,
    convert,
    copies,
    float8,
    floating,
    integer,
    loadstore,
    matrices,
    mbarrier,
    mma_quads,
    move,
    stack,
    surfaces,
    textures,
    video,
    warp,
    wmma,
)
from kcheck.ptx.isa.effects import EFFECTS
from kcheck.ptx.isa.rows import ROWS

FAMILIES = (
    approximate,
    atomics,
    barrier,
    bits,
    compare,
    convert,
    copies,
    float8,
    floating,
    integer,
    loadstore,
    matrices,
    mbarrier,
    mma_quads,
    move,
    stack,
    surfaces,
    textures,
    video,
    warp,
    wmma,
)
"""The modules that fill the tables when imported."""

__all__ = ["EFFECTS", "FAMILIES", "ROWS"]
