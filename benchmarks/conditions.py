"""Find bugs that show only where three conditions meet; a part of docs/evidence.md.

    python -m benchmarks.conditions [--write] [--count N] [--seed N]

Each kernel has a branch that is right in the correct twin and adds one in the buggy twin. The branch is taken
where three conditions hold, drawn from those that real kernels have: remainders of sizes, sizes against sizes,
single sizes, edges of a grid or block, a parameter, values of the input. Every kernel runs 100 cases of small and
middle sizes three times: drawn cases alone (``--no-reach``), the default, and ``--reach``. Exit code 0 if the
default finds at least 90% of the bugs, ``--reach`` 95%, and no correct twin fails.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.evidence.__main__ import PAGE, write

NUMBA = """
from numba import cuda

@cuda.jit
def op(x, y, m, n, mode):
    i = cuda.blockIdx.y
    j = cuda.grid(1)
    if j < n:
        v = x[i, j]
        w = 2 * v
        if {condition}:
            w += {added}
        y[i, j] = w
"""
CUDA = """
extern "C" __global__ void op(const float* x, float* y, int m, int n, int mode) {{
  int i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  float v = x[i * n + j], w = 2 * v;
  if ({condition}) w += {added};
  y[i * n + j] = w;
}}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def op(x, y, m, n, mode, BLOCK: tl.constexpr):
    i = tl.program_id(1)
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i * n + j, mask=j < n)
    w = tl.where({condition}, 2 * v + {added}, 2 * v)
    tl.store(y + i * n + j, w, mask=j < n)
"""
ROWS = """
from numba import cuda

@cuda.jit
def op(x, y, m, n, mode):
    i = cuda.grid(1)
    if i < m:
        for j in range(n):
            v = x[i, j]
            w = 2 * v
            if {condition}:
                w += {added}
            y[i, j] = w
"""
SPEC = """
kcheck: 1
op: {name}
kernel: {name}{suffix}:op
reference: references.py:doubled
dims: {{M: 1..200, N: 1..3000}}
params: {{mode: {{dtype: int32, values: [0, 1, 2, 3]}}}}
inputs: {{x: [M, N]}}
outputs: {{y: [M, N]}}
launch: {{args: [x, y, M, N, mode], grid: {grid}{block}}}
cases: {{count: 100, memory: 16MB}}
huge: off
{more}
"""
ELEMENTS = '["ceildiv(N, 128)", M]'
FORMS = {
    "numba.cuda": (NUMBA, ".py", ELEMENTS, ", block: [128]", ""),
    "CUDA C++": (CUDA, ".cu", ELEMENTS, ", block: [128]", ""),
    "Triton": (TRITON, ".py", ELEMENTS, "", "compile: {constexprs: {BLOCK: 128}}"),
    "numba.cuda, a thread per row": (ROWS, ".py", '["ceildiv(M, 64)"]', ", block: [64]", ""),
}

CONDITIONS = {
    "m": ("m % 3 == 2", "m % 16 == 5", "m == 65", "m > 100", "m == 1", "m % 7 == 0"),
    "n": (
        "n % 4 == 3",
        "n % 48 == 0",
        "n % 64 == 1",
        "n == 513",
        "n == 1777",
        "n > 2000",
        "n < 8",
        "n % 128 == 0",
    ),
    "both": ("m > n", "m == n", "(m + n) % 5 == 4", "m * n % 32 == 8", "n > 20 * m"),
    "param": ("mode == 3", "mode == 1", "mode % 2 == 0"),
    "place": ("i == m - 1", "j == n - 1", "j % 128 == 37", "i == 41", "j == 257", "j >= 2048"),
    "value": ("v > 2", "v == 0", "v < -1000"),
}
"""By what they depend on; a kernel has at most one of each."""

RUNS = {"drawn cases alone": "--no-reach", "default": "", "--reach": "--reach"}


@dataclass(frozen=True)
class Planted:
    """A kernel and where its bug shows."""

    name: str
    form: str
    conditions: tuple[str, str, str]

    def text(self, *, buggy: bool) -> str:
        """The source of the kernel, or of its twin."""
        both = {"Triton": "({}) & ({}) & ({})", "CUDA C++": "({}) && ({}) && ({})"}
        condition = both.get(self.form, "{} and {} and {}").format(*self.conditions)
        return FORMS[self.form][0].format(condition=condition, added=int(buggy))

    def spec(self, name: str) -> str:
        """The spec of one of the two."""
        _, suffix, grid, block, more = FORMS[self.form]
        return SPEC.format(name=name, suffix=suffix, grid=grid, block=block, more=more)


def planted(count: int, seed: int) -> list[Planted]:
    """Kernels with three conditions that some size meets together."""
    choose = random.Random(seed)
    found: list[Planted] = []
    while len(found) < count:
        groups = choose.sample(list(CONDITIONS), 3)
        conditions = tuple(choose.choice(CONDITIONS[group]) for group in groups)
        if conditions in {one.conditions for one in found} or not can_hold(conditions):
            continue
        form = list(FORMS)[len(found) % len(FORMS)]
        found.append(Planted(f"three_{len(found)}", form, (conditions[0], conditions[1], conditions[2])))
    return found


def can_hold(conditions: tuple[str, ...]) -> bool:
    """Whether random sizes and places meet the conditions, in a number of tries that a test would not have."""
    draw = random.Random(1)
    code = compile(" and ".join(f"({one})" for one in conditions), "conditions", "eval")
    special = {"m": (1, 65), "n": (513, 1777), "i": (41,), "j": (257, 2048)}
    for _ in range(200_000):
        at = {"m": draw.randint(1, 200), "n": draw.randint(1, 3000)}
        at |= {name: draw.choice(special[name]) for name in ("m", "n") if draw.random() < 0.3}
        at |= {"i": draw.randrange(at["m"]), "j": draw.randrange(at["n"])}
        at |= {name: draw.choice(special[name]) for name in ("i", "j") if draw.random() < 0.3}
        at |= {"i": at["m"] - 1} if draw.random() < 0.3 else {}
        at |= {"j": at["n"] - 1} if draw.random() < 0.3 else {}
        at |= {"mode": draw.randrange(4), "v": draw.choice((-5000, -1, 0, 3))}
        if at["i"] < at["m"] and at["j"] < at["n"] and eval(code, {}, at):
            return True
    return False


def failing(project: Path, option: str) -> dict[str, str]:
    """The first failing case of each spec, as ``drawn`` or ``reach``."""
    command = [sys.executable, "-m", "kcheck", "run", "specs", "--device", "cpu", "--no-store", "--format", "json"]
    done = subprocess.run([*command, *option.split()], cwd=project, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr or done.stdout[:2000])
    found = {}
    for spec in json.loads(done.stdout)["specs"]:
        labels = [case["label"] or "" for case in spec["cases"] if case["status"] != "passed"]
        if labels or spec["status"] == "error":
            found[spec["op"]] = "drawn" if any(not label.startswith("reach_") for label in labels) else "reach"
    return found


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conditions", description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/evidence.md")
    parser.add_argument("--count", type=int, default=40, metavar="N", help="kernels; default: 40")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which conditions are drawn; default: 0")
    chosen = parser.parse_args()
    kernels = planted(chosen.count, chosen.seed)
    with tempfile.TemporaryDirectory(prefix="kcheck-conditions-") as folder:
        project = Path(folder)
        (project / "kcheck.yaml").write_text("")
        (project / "references.py").write_text("def doubled(x, mode):\n    return {'y': 2 * x}\n")
        (project / "specs").mkdir()
        for kernel in kernels:
            for name, buggy in ((kernel.name, True), (f"{kernel.name}_fix", False)):
                (project / f"{name}{FORMS[kernel.form][1]}").write_text(kernel.text(buggy=buggy))
                (project / "specs" / f"{name}.yaml").write_text(kernel.spec(name))
        results = {name: failing(project, option) for name, option in RUNS.items()}
    alarms = sorted({op for found in results.values() for op in found if op.endswith("_fix")})
    counts = {name: sum(kernel.name in found for kernel in kernels) for name, found in results.items()}
    shares = ", ".join(f"{name} {n / len(kernels):.0%}" for name, n in counts.items())
    lines = [
        f"Written by `make evidence-conditions`: {len(kernels)} kernels, found by {shares}; "
        f"{len(alarms)} false alarms.",
        "",
        "| language | conditions | " + " | ".join(RUNS) + " |",
        "|---|---|" + "---|" * len(RUNS),
    ]
    for kernel in kernels:
        cells = [results[name].get(kernel.name, "-") for name in RUNS]
        lines.append(f"| {kernel.form} | `{' and '.join(kernel.conditions)}` | {' | '.join(cells)} |")
    text = "\n".join(lines)
    print(text, *alarms, Counter(results["default"].values()), sep="\n")
    if chosen.write:
        write(PAGE, "conditions", text)
    enough = counts["default"] >= 0.9 * len(kernels) and counts["--reach"] >= 0.95 * len(kernels)
    return 0 if enough and not alarms else 1


if __name__ == "__main__":
    sys.exit(main())
