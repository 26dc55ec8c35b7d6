"""What the assembler's log says against the machine code that it made: two readings of one kernel."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed (cu12, cu13)"),
]

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))
TARGETS = ["sm_80", "sm_90", "sm_100"]

# A process of its own: the device below numba.cuda is chosen once.
CHILD = """
import json, re, sys
from pathlib import Path
from cuda.core import Linker, LinkerOptions, ObjectCode
from kcheck.device import choose
from kcheck.generator import plan
from kcheck.device.artifact import Compilation
from kcheck.device.assembler import _architecture
from kcheck.device.kinds import KINDS, WantedArtifact
from kcheck.driver.cubin import read_resources
from kcheck.runner.linting import _launched
from kcheck.specfile import load_spec
spec, targets, rows = load_spec(Path(sys.argv[1])), sys.argv[2:], []
if spec.launch is not None:
    cases = plan(spec, count=spec.count, master=spec.seed)
    made = [KINDS[spec.kernel.kind].artifact(spec, cases, WantedArtifact(targets, False)).result()]
else:
    made = [
        seen.assembled(targets, [], sass=False)
        if seen.codes
        else Compilation(spec.root, seen.function, seen.signatures, targets).result()
        for seen in _launched(spec, choose("cpu", []), [], None)
    ]
for kernels in made:
    for kernel in kernels:
        assert not kernel.problem, kernel.problem
        options = LinkerOptions(arch=_architecture(kernel.ptx, kernel.target), verbose=True)
        linker = Linker(ObjectCode.from_ptx(kernel.ptx.encode()), options=options)
        code = bytes(linker.link("cubin").code)
        cc = int(kernel.target[3:])
        read = read_resources(code, kernel.entry, has_system_shared=cc >= 90)
        told = kernel.resources
        both = [[r.registers, size, r.shared] for r, size in ((told, told.stack), (read, read.local))]
        log = linker.get_info_log().partition("Compiling entry function '" + kernel.entry)[2]
        said = [int(re.search(pattern, log)[1]) for pattern in (
            r"Used (\\d+) registers", r"(\\d+) bytes spill stores", r"(\\d+) bytes spill loads")]
        is_alone = len(set(re.findall(rb"[.]text[.][\\w$]+", code))) == 1
        rows.append([kernel.target, *both, [told.registers, told.spill_stores, told.spill_loads], said, is_alone])
print(json.dumps(rows))
"""


@pytest.mark.parametrize("name", SPECS)
def test_the_log_agrees_with_the_code(name: str) -> None:
    """Of every specialization for three targets, also of a launcher's kernels: registers, stack and shared memory
    are those of the cubin's own sections; spills those of a log that was asked for anew, and so registers, but
    where a subroutine that is linked in takes more."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, f"specs/{name}.yaml", *TARGETS],
        cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    rows = json.loads(child.stdout)
    assert {row[0] for row in rows} == set(TARGETS)
    for target, told, read, lint, said, is_alone in rows:
        assert told == read, target
        assert lint[1:] == said[1:], target
        assert lint[0] == said[0] or (lint[0] > said[0] and not is_alone), target
