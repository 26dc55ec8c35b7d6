"""``kcheck exec`` keeps what Numba compiles for a program, and the program cannot tell."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

START = """
import warnings
import numpy as np
from numba import cuda
from numba.cuda.dispatcher import _Kernel
start, kernels = _Kernel.__init__, []
def counted(kernel, function, *arguments, **options):
    kernels.append(function.__name__)
    start(kernel, function, *arguments, **options)
_Kernel.__init__ = counted
"""
SCALED = """
from side import FACTOR, plus

def scaled_by(factor):
    @cuda.jit
    def scaled(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = plus(x[i] * factor)
    return scaled

x = np.arange(4, dtype=np.float32)
for factor in FACTOR, 3:
    kernel = scaled_by(factor)
    kernel[1, 4](x)
print(x, kernel.stats.cache_hits, kernel.stats.cache_misses, kernel._cache.__class__.__name__)
"""
SIDE = """
from numba import cuda

FACTOR = 2

@cuda.jit(device=True)
def plus(x):
    return x + 1
"""


class Programs:
    """Runs programs under ``kcheck exec`` in one folder, with one cache, which is empty at first.

    Attributes:
        reported: what the last one wrote to its standard error.
    """

    reported = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "side.py").write_text(SIDE)

    def run(self, program: str, *, status: int = 0, **variables: str) -> tuple[list[str], list[str]]:
        """The lines that a program prints, and the kernels that Numba compiled for it."""
        text = f"{START}\n{textwrap.dedent(program)}\nprint('compiled', *kernels)\n"
        path = self.folder / "program.py"
        if not path.exists() or path.read_text() != text:  # Numba's cache looks at the time
            path.write_text(text)
        start = "import sys; from kcheck.cli.exec import command; command(prog_name='kcheck exec')"
        done = subprocess.run(
            [sys.executable, "-c", start, "--", sys.executable, "-W", "ignore", "program.py"],
            cwd=self.folder,
            env=os.environ
            | {"PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}", "KCHECK_CACHE_DIR": str(self.folder / "cache")}
            | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == status, done.stderr
        self.reported = done.stderr
        *lines, compiled = done.stdout.splitlines()
        return lines, compiled.split()[1:]


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Programs that share an empty cache."""
    return Programs(tmp_path)


def test_a_second_process_compiles_only_what_has_changed(programs: Programs) -> None:
    """Closures of the same function are different kernels; the program sees its own statistics and no cache. A
    change of a device function or of the value of a closure variable counts."""
    first, compiled = programs.run(SCALED)
    assert compiled == ["scaled", "scaled"]
    assert "[ 4. 10. 16. 22.]" in first[0]
    assert "NullCache" in first[0]
    assert programs.run(SCALED) == (first, [])
    for old, new, expected, count in (
        ("FACTOR = 2", "FACTOR = 5", "[ 4. 19. 34. 49.]", 1),
        ("x + 1", "x + 2", "[ 8. 14. 20. 26.]", 2),
    ):
        (programs.folder / "side.py").write_text(SIDE.replace(old, new))
        lines, compiled = programs.run(SCALED)
        assert expected in lines[0]
        assert compiled == ["scaled"] * count


GENERATED = (
    """
import importlib.util, pathlib, tempfile

CODE = """
    + repr(
        """
from numba import cuda

@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    x[i + PLACE] = 1
"""
    )
    + """
place = pathlib.Path(tempfile.mkdtemp(prefix="generated-")) / "code.py"
place.write_text(CODE.replace("PLACE", "2"))
spec = importlib.util.spec_from_file_location("code_that_is_generated", place)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
x = cuda.to_device(np.zeros(4))
try:
    module.kernel[1, 4](x)
    cuda.synchronize()
except Exception as error:
    print(error)
print(place)
"""
)


def test_generated_code_in_another_temporary_folder_is_found(programs: Programs) -> None:
    """What is reported names the folder of its own process."""
    for expected in ["kernel"], []:
        (*_, place), compiled = programs.run(GENERATED, status=1)
        assert compiled == expected
        assert f"{place}:7: memcheck" in programs.reported


def test_code_that_extends_numba_counts(programs: Programs) -> None:
    """An overload is not referred to by name, nor is a constant that it imports."""
    extension = """
    from numba.cuda.extending import overload
    from constants import BIAS

    def biased(x):
        pass

    @overload(biased, target="cuda")
    def lowered(x):
        return lambda x: x + BIAS
    """
    program = """
    import extension
    from extension import biased

    @cuda.jit
    def kernel(x):
        x[0] = biased(x[0])

    x = np.zeros(1, np.float32)
    kernel[1, 1](x)
    print(x[0])
    """
    (programs.folder / "extension.py").write_text(textwrap.dedent(extension))
    (programs.folder / "constants.py").write_text("BIAS = 1\n")
    assert programs.run(program)[0] == ["1.0"]
    assert programs.run(program) == (["1.0"], [])
    (programs.folder / "constants.py").write_text("BIAS = 7\n")
    assert programs.run(program) == (["7.0"], ["kernel"])


KERNEL = """
@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1

x = np.zeros(4, np.float32)
kernel[1, 4](x)
"""


def test_a_program_can_inspect_a_kernel_from_the_cache(programs: Programs) -> None:
    """Types are compiled when they are asked for; code and signatures are in the cache."""
    inspect = """
    kernels.clear()
    signature = kernel.signatures[0]
    kernel.inspect_types()
    print(len(kernel.inspect_llvm(signature)) > 1000, "entry" in kernel.inspect_asm(signature))
    print(kernel.overloads[signature].fndesc.modname, kernel.overloads[signature].regs_per_thread > 0)
    kernels.clear()
    """
    program = KERNEL + textwrap.dedent(inspect)
    first = programs.run(program)
    assert len(first[0]) > 20
    assert programs.run(program) == first


def test_what_a_compilation_prints_or_warns_appears_in_each_run(programs: Programs) -> None:
    """Such a kernel is not kept."""
    dump = f"from numba import config\nconfig.DUMP_BYTECODE = 1\n{KERNEL}"
    assert len(programs.run(dump)[0]) > 5
    assert len(programs.run(dump)[0]) > 5
    (programs.folder / "warns.py").write_text(
        textwrap.dedent(
            """
            import warnings
            from numba.cuda.extending import overload

            def odd(x):
                pass

            @overload(odd, target="cuda")
            def lowered(x):
                warnings.warn(f"odd for {x}")
                return lambda x: x
            """
        )
    )
    warns = f"""
from warns import odd
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    {textwrap.indent(KERNEL.replace("+= 1", "= odd(x[i])"), "    ").strip()}
print([(str(w.message), w.filename[-8:]) for w in caught if "odd" in str(w.message)])
"""
    first = programs.run(warns)
    assert "('odd for float32', 'warns.py')" in first[0][0]
    assert programs.run(warns) == first


def test_options_in_the_environment_at_the_start_count(programs: Programs) -> None:
    """Numba reads them when it is imported."""
    assert programs.run(KERNEL)[1] == ["kernel"]
    assert programs.run(KERNEL, NUMBA_CUDA_DEBUGINFO="1")[1] == ["kernel"]


def test_options_in_the_environment_count_when_a_kernel_is_compiled(programs: Programs) -> None:
    """Numba reads its variables again when it compiles. The key of the first kernel has the options of the key
    of the second, which is made after that. A variable that does not change code does not count."""
    program = "import os\nos.environ.update([os.environ['CHANGE'].split('=')])\n" + SCALED
    for change, compiled in (
        ("NUMBA_CUDA_LOG_SIZE=2048", ["scaled", "scaled"]),
        ("NUMBA_CUDA_LOG_SIZE=4096", []),
        ("NUMBA_OPT=0", ["scaled", "scaled"]),
        ("NUMBA_OPT=3", []),
    ):
        assert programs.run(program, CHANGE=change)[1] == compiled, change


def test_other_caches_and_debug_code_are_left_alone(programs: Programs) -> None:
    """With ``cache=True`` Numba's own cache is used, and counts what it finds."""
    program = "".join(
        KERNEL.replace("@cuda.jit", f"@cuda.jit({option})") + "print(len(kernel.stats.cache_hits))\n"
        for option in ("cache=True", "debug=True, opt=False")
    )
    assert programs.run(program) == (["0", "0"], ["kernel", "kernel"])
    assert programs.run(program) == (["1", "0"], ["kernel"])
    assert not (programs.folder / "cache" / "programs").exists()
