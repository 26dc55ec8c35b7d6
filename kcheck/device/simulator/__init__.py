"""Numba's simulator with a repeatable scheduler, checked memory, and the types that Numba infers."""
