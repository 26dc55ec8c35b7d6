"""Numba's simulator with a repeatable scheduler, checked memory and Numba's own typing underneath."""
