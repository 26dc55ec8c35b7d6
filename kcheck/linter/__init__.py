"""Lint compiled kernels: metrics of the PTX and machine code, and the patterns and limits of ``artifact:``.

The package itself imports nothing: ``kcheck run`` needs :mod:`kcheck.linter.check`, which parses no PTX.
"""
