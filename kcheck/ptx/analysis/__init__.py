"""Analyses of a function before it is lowered: control flow, liveness, uniformity, affine values."""
