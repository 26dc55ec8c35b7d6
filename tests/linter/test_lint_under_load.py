"""The result of lint does not depend on how busy the machine is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kcheck.device.artifact import no_compiler
from kcheck.errors import KernelError
from kcheck.model import Finding, Outcome
from kcheck.runner.linting import lint_spec
from kcheck.specfile import load_spec

LAUNCHER = "def launch(x, y):\n    pass\n"
SPEC = """kcheck: 1
op: op
launcher: k.py:launch
reference: r.py:op
dims: {N: [3, 40]}
inputs: {x: [N]}
outputs: {y: [N]}
artifact: {max_registers: 4}
"""


@dataclass
class Busy:
    """A device on a busy machine: launches of more elements than ``most`` reach the time limit."""

    most: int
    limits: list[float | None] = field(default_factory=list)
    compiles_in_process = True

    def prepare(self, spec):
        """Nothing to load."""

    def launched(self, spec):
        """It launches nothing."""
        return ()

    def run(self, spec, arrays, *, timeout, instrument=()):
        """No output, and a timeout if the case is large."""
        self.limits.append(timeout)
        is_late = arrays.case.dims["N"] > self.most
        late = (Finding("timeout", "the launcher did not finish"),) if is_late else ()
        return Outcome(arrays.case, "cpu", {}, {}, late)


@pytest.mark.skipif(bool(no_compiler()), reason=no_compiler())
def test_a_launcher_that_does_not_finish_is_an_error(tmp_path: Path) -> None:
    """Else the limits of kernels that only this case launches would be checked or not, depending on the load."""
    for name, text in (("k.py", LAUNCHER), ("r.py", "def op(x):\n    return x\n"), ("kcheck.yaml", "")):
        (tmp_path / name).write_text(text)
    (tmp_path / "s.yaml").write_text(SPEC)
    spec = load_spec(tmp_path / "s.yaml")
    idle = Busy(40)
    assert not lint_spec(spec, idle, ()).findings
    assert set(idle.limits) == {20.0}
    with pytest.raises(KernelError, match=r"did not end within 7 s, so the kernels that it launches are unknown"):
        lint_spec(spec, Busy(39), (), timeout=7.0)
