"""The names of gpuemu's module ``frameworks.pytorch``."""

from kcheck.compat.gpuemu.frameworks import ValidationError
from kcheck.compat.gpuemu.frameworks import validate_arrays as validate_pytorch

__all__ = ["ValidationError", "validate_pytorch"]
