"""Time what a user waits for: short runs of ``kcheck run`` with full caches, and rounds of ``--watch``.

Times are seconds of processor time of a whole process. A run is quoted as a ratio to ``import numba.cuda``, which
every program that launches a kernel pays; the two run alternately.
"""

from __future__ import annotations

import compileall
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "short"
TURNS = 9
RUNS = {
    "relu, 1 case": (("run", "specs/relu.yaml", "--cases", "1"), 1.25),
    "softmax, 30 cases": (("run", "specs/softmax.yaml", "--cases", "30"), 1.5),
}
"""Arguments of each run, and the ratio that is the target."""
EDITS = {
    "relu": ("np.float32(x[i]) < np.float32(0.0)", "np.float32(x[i]) < np.float32({})"),
    "softmax": ("scratch[t] = total\n", "scratch[t] = total * np.float32({})\n"),
    "attention": ("total = np.float32(0.0)\n", "total = np.float32({}e-40)\n"),  # scaled by 0 before it counts
}
"""By kernel, a line and what it becomes."""


def processor_time(command: list[str], environment: dict[str, str]) -> float:
    """Seconds of processor time that a process took, with its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_runs(environment: dict[str, str]) -> dict[str, float]:
    """Median processor time of the plain import and of each run, interleaved."""
    compileall.compile_dir(ROOT / "kcheck", quiet=2)  # as pip does for an installed package
    commands = {"import": [sys.executable, "-c", "import numba.cuda"]}
    for name, (arguments, _) in RUNS.items():
        commands[name] = [sys.executable, "-m", "kcheck", *arguments, "--device", "cpu", "--no-store"]
    for command in commands.values():
        for _ in range(2):  # fill the caches; better code is made in the second run
            processor_time(command, environment)
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(TURNS):
        for name, command in commands.items():
            found[name].append(processor_time(command, environment))
    return {name: statistics.median(times) for name, times in found.items()}


class Watch:
    """``kcheck run --watch`` on a copy of one spec with its kernel and reference."""

    def __init__(self, op: str, folder: Path, environment: dict[str, str]) -> None:
        for part in (f"specs/{op}.yaml", f"kernels/{op}.py", f"references/{op}.py"):
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, folder / part)
        (folder / "kcheck.yaml").touch()
        self.kernel = folder / f"kernels/{op}.py"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kcheck", "run", "--device", "cpu", "--cases", "30", "--no-store", "--watch"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._until_ready()

    def _until_ready(self) -> float:
        """Wait for the end of a round; when its cases had their verdict, in wall-clock time."""
        assert self._process.stdout is not None
        verdict = 0.0
        for line in self._process.stdout:
            if not verdict and (line.startswith(("ok ", "FAIL ")) or "all cases passed" in line):
                verdict = time.monotonic()
            if "Ctrl-C stops" in line:
                return verdict
        raise SystemExit("kcheck run --watch ended")

    def _children(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def round(self, text: str) -> tuple[float, float]:
        """Save the kernel; wall-clock seconds to the verdict, and processor time of the whole round."""
        before, begun = self._children(), time.monotonic()
        aside = self.kernel.with_name("~aside")  # in one step: a round of half a file is not measured
        aside.write_text(text)
        os.replace(aside, self.kernel)
        verdict = self._until_ready() - begun
        return verdict, self._children() - before

    def close(self) -> None:
        """Stop it. Not with SIGINT, which a shell ignores in what it starts in the background."""
        self._process.terminate()
        self._process.communicate()


def measure_watch(op: str, folder: Path, environment: dict[str, str]) -> list[float]:
    """Seconds to the verdict and processor time of a round: with code that is new, and with code that is not."""
    watch = Watch(op, folder / op, environment)
    text = watch.kernel.read_text()
    old, new = EDITS[op]
    assert old in text, op
    first = [watch.round(text.replace(old, new.format(1 + n / 1000))) for n in range(1, 4)]
    again = [watch.round(text if n % 2 else text.replace(old, new.format(1.001))) for n in range(6)][2:]
    watch.close()
    return [statistics.median(row) for rounds in (first, again) for row in zip(*rounds, strict=True)]


def table() -> str:
    """Measure everything and write it as Markdown."""
    with tempfile.TemporaryDirectory(prefix="kcheck-short-") as name:
        folder = Path(name)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "KCHECK_CACHE_DIR": str(folder / "cache")}
        environment.pop("NUMBA_ENABLE_CUDASIM", None)
        environment["PYTHONUNBUFFERED"] = "1"
        times = measure_runs(environment)
        rounds = {op: measure_watch(op, folder, environment) for op in EDITS}
    lines = [
        f"Median processor time of {TURNS} runs of the whole process with full caches, interleaved with the "
        "import.",
        "",
        "| | time | times `import numba.cuda` | target |",
        "|---|---:|---:|---:|",
        f"| `python -c 'import numba.cuda'` | {times['import']:.2f} s | 1 | |",
    ]
    for run, (_, target) in RUNS.items():
        lines.append(f"| {run} | {times[run]:.2f} s | {times[run] / times['import']:.2f} | {target} |")
    lines += [
        "",
        "`--watch`: wall-clock time from an edit of one line of the kernel to the verdict of its 30 cases, "
        "and processor time of the whole round. New code is compiled once for each combination of dtypes; if all "
        "cases pass, as for attention, also for each layout, for the `artifact`. Earlier code is in the "
        f"caches. The load average was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.",
        "",
        "| edit of | new code: verdict | processor time | earlier code: verdict | processor time |",
        "|---|---:|---:|---:|---:|",
        *(f"| {op} | {' | '.join(f'{time:.2f} s' for time in row)} |" for op, row in rounds.items()),
    ]
    return "\n".join(lines) + "\n"
