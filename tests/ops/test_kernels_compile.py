"""Every kernel compiles to PTX for every dtype that its spec declares, with no GPU and no kcheck in between."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

# By file and kernel: the arguments that its spec, or its launcher, calls it with; T is a declared dtype.
# `[:, :]` is an array of any strides, `[:, ::1]` a C-contiguous one.
SIGNATURES = {
    "attention": {"attention": "T[:, :, :], T[:, :, :], T[:, :, :], float32, T[:, :, ::1]"},
    "attention_causal": {
        "attention_causal": "T[:, :, :], T[:, :, ::1], T[:, :, ::1], float32, int64, T[:, :, ::1]"
    },
    "attention_gqa": {
        "attention_gqa": "T[:, :, ::1], T[:, :, :, :], T[:, :, :, ::1], float32, T[:, :, ::1]",
    },
    "attention_rows": {
        "attention_rows": "T[:, :, :], T[:, :, ::1], T[:, :, ::1], int32[::1], float32, T[:, :, ::1]"
    },
    "batchnorm": {
        "batchnorm": "T[:, :, :], float32[::1], float32[::1], float32[::1], float32[::1], float32, T[:, :, ::1]"
    },
    "cross_entropy": {"cross_entropy": "T[:, :], int64[::1], int64, float32[::1]"},
    "gelu": {"gelu": "T[:], T[:], int32"},
    "groupnorm": {"groupnorm": "T[:, :, :], T[::1], T[::1], int64, float32, T[:, :, ::1]"},
    "l2norm": {"l2norm": "T[:, :], float32, T[:, ::1]"},
    "layernorm": {"layernorm": "T[:, :], T[::1], T[::1], float32, T[:, ::1]"},
    "logsumexp": {"logsumexp": "T[:, :], float32[::1]"},
    "matmul": {"matmul": "T[:, :], T[:, :], T[:, ::1]"},
    "matmul_griddim": {"matmul": "T[:, ::1], T[:, ::1], T[:, ::1]"},
    "reduce_sum": {"block_sums": "T[:], T[::1]", "final_sum": "T[::1], T[::1]"},
    "rmsnorm": {"rmsnorm": "T[:, :], T[:], float32, T[:, ::1]"},
    "softmax": {"softmax": "T[:, :], T[:, :]"},
    "softmax_online": {"softmax_online": "T[:, :], T[:, ::1]"},
    # Linear algebra and neighbourhoods.
    "conv1d": {"conv1d": "T[:, :, :], T[:, :, ::1], int64, int64, T[:, :, ::1]"},
    "conv2d": {"conv2d": "T[:, :, :, :], T[:, :, :, ::1], int64, int64, int64, int64, T[:, :, :, ::1]"},
    "gemv": {"gemv": "T[:, :], T[::1], T[::1], float32, float32"},
    "matmul_batched": {
        "matmul_batched": "T[::1], T[::1], T[:, :, ::1], int64, int64, int64, int64, int64, int64, int64"
    },
    "matmul_grouped": {"matmul_grouped": "T[:, ::1], T[:, ::1], int32[::1], T[:, :, ::1]"},
    "matmul_half": {"matmul_half": "T[:, ::1], T[:, ::1], T[:, ::1]"},
    "matmul_naive": {"matmul_naive": "T[:, :], T[:, :], T[:, ::1]"},
    "matmul_splitk": {"clear": "T[:, ::1],", "add_slice": "T[:, :], T[:, ::1], T[:, ::1]"},
    "spmv_csr": {"spmv_csr": "int32[::1], int32[::1], T[::1], T[::1], T[::1]"},
    "stencil": {"stencil": "T[:, :], float32, T[:, ::1]"},
    "transpose": {"transpose": "T[:, :], T[:, ::1]"},
    # Indices, scans, sorting.
    "argmax": {"argmax": "T[:, :], int64[::1]"},
    "bitonic_sort": {"bitonic_sort": "T[:, ::1], T[:, ::1], int64[:, ::1]"},
    "compact": {
        "count_kept": "int32[:], int32, int32[::1]",
        "scan_counts": "int32[::1], int32[::1], int32[::1]",
        "write_kept": "int32[:], int32, int32[::1], int32[::1], int32[::1]",
    },
    "cumsum": {"cumsum": "T[:, :], T[:, ::1]"},
    "embedding": {"embedding": "T[:, :], int64[::1], int64, T[:, ::1]"},
    "gather": {"gather": "T[:, :], int32[:, :], T[:, ::1]"},
    "histogram": {"clear": "int32[::1],", "count": "int32[:], int32, int32, int32[::1]"},
    "reduce_max": {"reduce_max": "T[:, :], T[::1]"},
    "scatter_add": {"scatter_add": "int32[::1], T[:, :], T[:, ::1]"},
    "segment_sum": {"segment_sum": "T[:], int32[::1], T[::1]"},
    "topk": {"topk": "T[:, ::1], T[:, ::1], int64[:, ::1]"},
}

# A process of its own, for numba.cuda is either the simulator or the compiler, decided at its first import.
COMPILE = """
import importlib.util, json, sys, types as python
from numba import cuda
from numba.cuda import dispatcher, types
# Device functions are compiled for the current device, and there is none.
dispatcher.get_current_device = lambda: python.SimpleNamespace(compute_capability=(8, 0))
names = {name: getattr(types, name) for name in ("bfloat16", "float16", "float32", "int32", "int64")}
answers = []
for path, kernel, arguments in json.load(sys.stdin):
    spec = importlib.util.spec_from_file_location("kernel_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        ptx, _ = cuda.compile_ptx(getattr(module, kernel).py_func, eval(f"({arguments})", names), cc=(8, 0))
        answers.append(ptx)
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
json.dump(answers, sys.stdout)
"""

Row = tuple[str, str, str]


def rows() -> list[Row]:
    """(file, kernel, argument types) for each spec and declared dtype."""
    found = []
    for path in sorted((ROOT / "specs").rglob("*.yaml")):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
        op = path.stem
        if "extends" in spec:  # a twin: the same arguments as the op that it is held against
            op = Path(spec["extends"]).stem
            spec = yaml.safe_load((ROOT / spec["extends"]).read_text(encoding="utf-8")) | spec
        file = (spec.get("kernel") or spec["launcher"]).split(":")[0]
        declared = spec.get("dtypes", ["float32"])
        for dtype in declared["T"] if isinstance(declared, dict) else declared:
            for kernel, arguments in SIGNATURES[op].items():
                found.append((file, kernel, re.sub(r"\bT\b", dtype, arguments)))
    return found


@pytest.fixture(scope="module")
def compiled() -> dict[Row, str]:
    """The PTX of each row, or the compiler's complaint."""
    table = rows()
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", COMPILE],
        input=json.dumps([(str(ROOT / file), kernel, arguments) for file, kernel, arguments in table]),
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0"},
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    return dict(zip(table, json.loads(child.stdout), strict=True))


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]}:{row[1]}({row[2].split('[')[0]})")
def test_kernel_compiles(compiled: dict[Row, str], row: Row) -> None:
    """NVVM makes PTX for sm_80 of it, in which nothing is computed in float64 and nothing is left to be linked but
    dynamic shared memory and the functions that numba-cuda links for bfloat16."""
    ptx = compiled[row]
    assert ".target sm_80" in ptx
    assert re.search(r"\.visible \.\w+ ", ptx)
    assert ".f64" not in ptx
    assert not re.search(r"\.extern (?!\.shared)(?!\.func .*nv_bfloat16)", ptx)
