"""The names of gpuemu's module ``frameworks.tensorflow``."""

from kcheck.compat.gpuemu.frameworks import ValidationError
from kcheck.compat.gpuemu.frameworks import validate_arrays as validate_tensorflow

__all__ = ["ValidationError", "validate_tensorflow"]
