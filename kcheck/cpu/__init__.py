"""Run lowered PTX on the CPU: memory, machine code, the scheduler of blocks, faults.

``llvmlite`` is imported where it is used, not here.
"""
