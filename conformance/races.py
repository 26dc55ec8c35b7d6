"""``make conformance-races SOURCES=path``: CUTLASS and llm.c under all sanitizers, with every finding judged.

SOURCES is a folder with checkouts in ``cutlass`` and ``llm.c``; one may be missing. Programs of wide use show
whether a rule raises false alarms. nvcc builds them; of llm.c, those of ``dev/cuda`` without cuBLAS, each with
all its kernels, at small sizes. conformance/races_judged.yaml says what each finding is. Exits with 1 for one that
is not judged, and for a program that ends with an error but without a finding. Writes docs/conformance-races.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from conformance.page import cell
from kcheck.dataclass import dataclass
from kcheck.driver.nvcc import find_nvcc

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance-races.md"
JUDGED = Path(__file__).with_name("races_judged.yaml")
_FINDING = re.compile(r"^kcheck: (\S+?):(\d+): (?:warning: )?(\w+)(?: in \w+)?: ")
_FLAGS = ("-O3", "-lineinfo", "-std=c++17", "-gencode", "arch=compute_80,code=compute_80")

CUTLASS = {
    "00_basic_gemm/basic_gemm": "96 80 64",
    "05_batched_gemm/batched_gemm": "",
    "14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm": "--m=128 --n=128 --k=64 --iterations=1",
    "16_ampere_tensorop_conv2dfprop/ampere_tensorop_conv2dfprop": (
        "--n=1 --h=8 --w=8 --c=32 --k=32 --r=3 --s=3 --iterations=1 --ref-check"
    ),
    "18_ampere_fp64_tensorop_affine2_gemm/ampere_fp64_tensorop_affine2_gemm": "",
    "23_ampere_gemm_operand_reduction_fusion/ampere_gemm_operand_reduction_fusion": (
        "--m=128 --n=128 --k=64 --iterations=1 --reference-check"
    ),
    "47_ampere_gemm_universal_streamk/ampere_gemm_universal_streamk": "--m=128 --n=128 --k=128 --iterations=1",
}
"""Examples for sm_80 that need no library, and arguments with sizes of a few tiles."""

LLM_C = (
    "adamw",
    "crossentropy_forward",
    "crossentropy_softmax_backward",
    "encoder_backward",
    "encoder_forward",
    "fused_residual_forward",
    "gelu_backward",
    "gelu_forward",
    "global_norm",
    "layernorm_backward",
    "layernorm_forward",
    "matmul_backward_bias",
    "permute",
    "residual_forward",
    "softmax_forward",
)
"""Programs of ``dev/cuda``. Their argument is the number of a kernel."""

_SMALLER = (
    (r"\bint B = \d+;", "int B = 2;"),
    (r"\bint T = \d+;", "int T = 64;"),
    (r"\bint C = 768;", "int C = 128;"),
    (r"\bint V = 50257;", "int V = 1000;"),
    (r"\brepeat_times = \d+", "repeat_times = 1"),
)


@dataclass(frozen=True)
class Program:
    """A program, what nvcc needs beside its source, and the arguments of its runs."""

    name: str
    source: Path
    text: str
    includes: tuple[Path, ...]
    runs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Ran:
    """One run: ``rule file:line`` of each finding, and how it ended."""

    name: str
    findings: tuple[str, ...]
    end: str


def cutlass(folder: Path) -> Iterator[Program]:
    """The examples of a checkout of CUTLASS."""
    examples = folder / "examples"
    includes = (folder / "include", folder / "tools/util/include", examples / "common")
    for name, arguments in CUTLASS.items():
        source = examples / f"{name}.cu"
        yield Program(source.stem, source, source.read_text(), includes, (tuple(arguments.split()),))


def llm_c(folder: Path) -> Iterator[Program]:
    """The programs of a checkout of llm.c, with smaller sizes."""
    for name in LLM_C:
        source = folder / "dev/cuda" / f"{name}.cu"
        text = source.read_text()
        for before, after in _SMALLER:
            text = re.sub(before, after, text)
        kernels = sorted({int(n) for n in re.findall(r"case (\d+):", text)})
        runs = tuple((str(n),) for n in kernels) or ((),)
        yield Program(name, source, text, (source.parent, Path(__file__).parent / "without_cublas"), runs)


def judge(program: Program, nvcc: str, limit: float) -> Iterator[Ran]:
    """Build a program and run it."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / program.source.name
        source.write_text(program.text)
        words = [nvcc, *_FLAGS, *(f"-I{path}" for path in program.includes), source.name, "-o", "program"]
        built = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
        if built.returncode:
            wrong = next((line for line in built.stderr.splitlines() if "error" in line), "nvcc failed")
            yield Ran(program.name, (), f"not built: {wrong}")
            return
        for arguments in program.runs:
            command = [sys.executable, "-m", "kcheck", "exec", "--sanitize", "all", "--", "./program", *arguments]
            name = " ".join((program.name, *(arguments if len(program.runs) > 1 else ())))
            with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
                child = subprocess.Popen(command, cwd=place, stdout=out, stderr=err)
                try:
                    code = child.wait(timeout=limit)
                except subprocess.TimeoutExpired:
                    child.terminate()  # and with it the program
                    child.wait()
                    yield Ran(name, (), f"more than {limit:.0f} s")
                    continue
                out.seek(0)
                err.seek(0)
                printed, errors = out.read(), err.read()
            told = [m for line in errors.splitlines() if (m := _FINDING.match(line))]
            findings = sorted({f"{m[3]} {Path(m[1]).name}:{m[2]}" for m in told})
            last = (printed + errors).strip().splitlines()[-1:] if code else []
            yield Ran(name, tuple(findings), "".join(last) and f"exit {code}: {last[0]}")


def what_it_is(finding: str, judged: Mapping[str, str]) -> str | None:
    """The judgment whose pattern matches ``rule file:line``."""
    return next((why for pattern, why in judged.items() if fnmatch.fnmatchcase(finding, pattern)), None)


def page(runs: Sequence[Ran], judged: Mapping[str, str]) -> str:
    """The tables, as Markdown."""
    clean = sum(not run.findings and not run.end for run in runs)
    found = sorted({finding for run in runs for finding in run.findings})
    lines = [
        "# CUTLASS and llm.c under all sanitizers",
        "",
        "Examples of CUTLASS for sm_80, and the kernels of llm.c's `dev/cuda` that need no library, built by nvcc",
        "and run as `kcheck exec --sanitize all -- ./program`, each with its own check of its results. Written by",
        "`make conformance-races SOURCES=path`; the sources are not part of kcheck; llm.c's have smaller sizes.",
        "",
        f"**{clean} of {len(runs)} runs end without a finding or an error.** {len(found)} lines have findings, "
        "each judged by reading the code:",
        "",
        "| finding | what it is |",
        "|---|---|",
    ]
    lines += [
        f"| {cell(finding)} | {cell(what_it_is(finding, judged) or '**not judged**')} |" for finding in found
    ]
    ends = [run for run in runs if run.end]
    if ends:
        lines += ["", "## Runs that end with an error", "", "| run | end |", "|---|---|"]
        lines += [f"| {cell(run.name)} | {cell(run.end[:120])} |" for run in ends]
    lines += ["", "## Runs without a finding", "", ", ".join(run.name for run in runs if not run.findings) + "."]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Judge the programs; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make conformance-races")
    parser.add_argument("sources", type=Path, help="a folder with checkouts: cutlass, llm.c")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a run (300)")
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args(arguments)
    nvcc = find_nvcc()
    sources = given.sources.resolve()
    programs = [
        program
        for name, of in (("cutlass", cutlass), ("llm.c", llm_c))
        if (sources / name).is_dir()
        for program in of(sources / name)
    ]
    if nvcc is None or not programs:
        print(
            "no nvcc: install the CUDA toolkit, or pip install 'kcheck[nvcc]'"
            if nvcc is None
            else f"{sources} has no checkout named cutlass or llm.c",
            file=sys.stderr,
        )
        return 2
    judged: dict[str, str] = yaml.safe_load(JUDGED.read_text()) or {}
    runs = []
    for program in programs:
        for run in judge(program, nvcc, given.limit):
            print(f"{run.name:32} {len(run.findings):3} {run.end[:90]}", flush=True)
            runs.append(run)
    given.page.write_text(page(runs, judged))
    wrong = [
        f"not judged: {finding} in {run.name}"
        for run in runs
        for finding in run.findings
        if what_it_is(finding, judged) is None
    ]
    wrong += [
        f"{run.name} ends with an error and no finding: {run.end}"
        for run in runs
        if run.end and not run.findings and what_it_is(f"end {run.name}", judged) is None
    ]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
