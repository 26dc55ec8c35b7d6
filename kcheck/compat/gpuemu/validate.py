"""The names of gpuemu's module ``validate``."""

from kcheck.compat.gpuemu.fuzzer import SeededFuzzer
from kcheck.compat.gpuemu.fuzzing import (
    FuzzConfig,
    fuzz_dtypes,
    fuzz_dtypes_seeded,
    fuzz_layouts,
    fuzz_layouts_seeded,
    fuzz_shapes,
    fuzz_shapes_seeded,
    generate_random_tensor,
)
from kcheck.compat.gpuemu.validation import ValidationError, validate, validate_op

__all__ = [
    "FuzzConfig",
    "SeededFuzzer",
    "ValidationError",
    "fuzz_dtypes",
    "fuzz_dtypes_seeded",
    "fuzz_layouts",
    "fuzz_layouts_seeded",
    "fuzz_shapes",
    "fuzz_shapes_seeded",
    "generate_random_tensor",
    "validate",
    "validate_op",
]
