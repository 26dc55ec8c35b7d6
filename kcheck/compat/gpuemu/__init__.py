"""gpuemu's Python client, implemented with kcheck: write ``from kcheck.compat import gpuemu`` for
``import gpuemu``.

There is no daemon: a client answers in this process. Ops are the specs of the project, or functions that
:func:`register` names. Values, seeds and tolerances are kcheck's: the same seed gives different bits than in
gpuemu, and the default tolerance is the error that rounding can cause, not a fixed number.
docs/coming-from-gpuemu.md has a table of both APIs.
"""

from kcheck.compat.gpuemu.client import Client
from kcheck.compat.gpuemu.frameworks.jax import validate_jax
from kcheck.compat.gpuemu.frameworks.pytorch import validate_pytorch
from kcheck.compat.gpuemu.frameworks.tensorflow import validate_tensorflow
from kcheck.compat.gpuemu.fuzzer import SeededFuzzer
from kcheck.compat.gpuemu.fuzzing import (
    FuzzConfig,
    TestCase,
    fuzz_dtypes,
    fuzz_dtypes_seeded,
    fuzz_layouts,
    fuzz_layouts_seeded,
    fuzz_shapes,
    fuzz_shapes_seeded,
    generate_random_tensor,
)
from kcheck.compat.gpuemu.ops import ClientError, register
from kcheck.compat.gpuemu.results import (
    FuzzResults,
    MinimizeResult,
    ReproduceResult,
    ReproductionInfo,
    ValidationResult,
)
from kcheck.compat.gpuemu.rng import SeededRng, derive_seed, generate_seed, random_seed
from kcheck.compat.gpuemu.tolerances import (
    ToleranceConfig,
    ToleranceProfile,
    calibrate_tolerance,
    get_recommended_tolerance,
)
from kcheck.compat.gpuemu.validate import validate  # last: the function takes the name of its module, as in gpuemu
from kcheck.compat.gpuemu.validation import ValidationError, validate_op

__all__ = [
    "Client",
    "ClientError",
    "FuzzConfig",
    "FuzzResults",
    "MinimizeResult",
    "ReproduceResult",
    "ReproductionInfo",
    "SeededFuzzer",
    "SeededRng",
    "TestCase",
    "ToleranceConfig",
    "ToleranceProfile",
    "ValidationError",
    "ValidationResult",
    "calibrate_tolerance",
    "derive_seed",
    "fuzz_dtypes",
    "fuzz_dtypes_seeded",
    "fuzz_layouts",
    "fuzz_layouts_seeded",
    "fuzz_shapes",
    "fuzz_shapes_seeded",
    "generate_random_tensor",
    "generate_seed",
    "get_recommended_tolerance",
    "random_seed",
    "register",
    "validate",
    "validate_jax",
    "validate_op",
    "validate_pytorch",
    "validate_tensorflow",
]
