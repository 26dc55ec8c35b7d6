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
import json, sys
from pathlib import Path
from cuda.core import Linker, LinkerOptions, ObjectCode
from kcheck.device.artifact import Compilation
from kcheck.device.specialise import signatures
from kcheck.driver.cubin import read_resources
from kcheck.specfile import load_spec
spec, rows = load_spec(Path(sys.argv[1])), []
for kernel in Compilation(spec.root, spec.kernel, signatures(spec), sys.argv[2:]).result() if spec.launch else ():
    assert not kernel.problem, kernel.problem
    linker = Linker(ObjectCode.from_ptx(kernel.ptx.encode()), options=LinkerOptions(arch=kernel.target))
    code = bytes(linker.link("cubin").code)
    cc = int(kernel.target[3:])
    read = read_resources(code, kernel.entry, has_system_shared=cc >= 90)
    told = kernel.resources
    both = [[r.registers, size, r.shared] for r, size in ((told, told.stack), (read, read.local))]
    rows.append([kernel.target, *both])
print(json.dumps(rows))
"""


@pytest.mark.parametrize("name", SPECS)
def test_the_log_agrees_with_the_code(name: str) -> None:
    """Registers, stack and shared memory of every specialisation for three targets: the same in ptxas's log and in
    the cubin's own sections."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, f"specs/{name}.yaml", *TARGETS],
        cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    for target, told, read in json.loads(child.stdout):
        assert told == read, target
