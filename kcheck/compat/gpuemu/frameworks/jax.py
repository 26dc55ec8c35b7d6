"""The names of gpuemu's module ``frameworks.jax``."""

from kcheck.compat.gpuemu.frameworks import ValidationError
from kcheck.compat.gpuemu.frameworks import validate_arrays as validate_jax

__all__ = ["ValidationError", "validate_jax"]
