"""Judges kcheck exec with whole CUDA programs: HeCBench (src/*-cuda) or NVIDIA's cuda-samples.

    python conformance/programs.py SOURCES [--every N] [--limit SECONDS] [--page FILE] [NAME ...]

A program is built by nvcc from its .cu and .cpp files, with the toolkit alone. Others are not judged.
It runs with its own arguments, cut to small sizes, and is judged by its own check: what it prints (PASS, FAIL,
mismatch) and its exit status.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_LIBRARIES = re.compile(
    r"cublas|cufft|cudnn|cusparse|cusolver|curand\.h|nccl|npp|nvjpeg|GL/|glfw|mpi\.h|vulkan|nvrtc|cudla|egl\.h|nvml|d3d1",
    re.IGNORECASE,
)
_GOOD = re.compile(r"\bpass(ed)?\b|\bsuccess|verified|\bcorrect\b|\bOK\b|test passed", re.IGNORECASE)
_BAD = re.compile(r"\bfail(ed|ure)?\b|mismatch|incorrect|cuda error|\bwrong\b", re.IGNORECASE)


@dataclass(frozen=True)
class Judged:
    """One program: its verdict and what shows it."""

    name: str
    verdict: str
    detail: str
    seconds: float
    findings: int


def programs(root: Path) -> list[Path]:
    """The folders of programs in a checkout of HeCBench or of cuda-samples."""
    if (root / "Samples").is_dir():
        return sorted({path.parent for path in (root / "Samples").glob("*/*/*.cu")})
    return sorted(path for path in (root / "src").glob("*-cuda") if list(path.glob("*.cu")))


def arguments(folder: Path) -> list[str]:
    """The arguments of ``make run``, with numbers cut: sizes to at most 4096, the last one to 2 repetitions."""
    make = folder / "Makefile"
    text = make.read_text(errors="replace") if make.exists() else ""
    found = re.search(r"\./(?:\$\(program\)|main)[ \t]+([^\n;|>]+)", text)
    words = found.group(1).split() if found else []
    numbers = [n for n, word in enumerate(words) if word.isdigit()]
    for n in numbers:
        words[n] = str(min(int(words[n]), 4096))
    if numbers and len(words) > 1:
        words[numbers[-1]] = str(min(int(words[numbers[-1]]), 2))
    return words


def sources_of(folder: Path) -> list[Path]:
    """The files that the Makefile compiles (``source = ...``), or all."""
    make = folder / "Makefile"
    text = make.read_text(errors="replace").replace("\\\n", " ") if make.exists() else ""
    named = re.search(r"^source\s*[:+]?=(.*)$", text, re.MULTILINE)
    if named and (files := [folder / word for word in named.group(1).split() if (folder / word).is_file()]):
        return files
    return [*folder.glob("*.cu"), *folder.glob("*.cpp"), *folder.glob("*.cc")]


def build(folder: Path, nvcc: str, limit: float) -> tuple[str, str]:
    """("", "") if the program was built as ``program`` in its folder, else a verdict and the reason."""
    sources = sources_of(folder)
    text = "".join(
        path.read_text(errors="replace") for path in [*sources, *folder.glob("*.h*"), *folder.glob("*.cuh")]
    )
    make = folder / "Makefile"
    text += make.read_text(errors="replace") if make.exists() else ""
    if needed := _LIBRARIES.search(text):
        return "not judged", f"needs {needed.group(0)}"
    common = [folder / "../../../Common", folder / "../include", folder]
    words = [
        nvcc,
        "-O3",
        "-std=c++17",
        "-lineinfo",
        "-arch=sm_80",
        "-o",
        "program",
        *(path.name for path in sources),
    ]
    words += [f"-I{path.resolve()}" for path in common]
    words += [f"-I{(folder / place).resolve()}" for place in re.findall(r"-I\s*(\.[\w./-]+)", text)]
    if "cudaLaunchDevice" in text or re.search(r"-rdc|relocatable", text):
        words.append("-rdc=true")
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return "not built", f"nvcc took more than {limit:.0f} s"
    if done.returncode:
        wrong = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
        return "not built", (wrong[0] if wrong else "nvcc failed")[:120]
    return "", ""


def judge(folder: Path, nvcc: str, limit: float) -> Judged:
    """Build one program in a copy of its folder's place, run it, and read its own check."""
    name = folder.name
    verdict, detail = build(folder, nvcc, 4 * limit)
    if verdict:
        return Judged(name, verdict, detail, 0, 0)
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        words = [sys.executable, "-m", "kcheck", "exec", "--", "./program", *arguments(folder)]
        child = subprocess.Popen(words, cwd=folder, stdout=out, stderr=err)
        try:
            code = child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            child.terminate()
            child.wait()
            return Judged(name, "timeout", f"more than {limit:.0f} s", limit, 0)
        seconds = time.monotonic() - started
        out.seek(0)
        err.seek(0)
        printed, told = out.read(), err.read()
    findings = len(re.findall(r"^kcheck: \S+:\d+: ", told, re.MULTILINE))
    refused = re.search(r"^kcheck: (?!races were|\S+:\d+:|\d+ (error|warning)).*$", told, re.MULTILINE)
    if refused and (code or _BAD.search(printed)):
        return Judged(name, "fails", refused.group(0)[:140], seconds, findings)
    if re.search(
        r"no such file|cannot open|can't open|opening the file|Assertion `file'", printed + told, re.IGNORECASE
    ):
        return Judged(name, "not judged", "needs a file", seconds, findings)
    if code == 2 and re.search(r"waiv", printed + told, re.IGNORECASE):
        return Judged(name, "not judged", "waives itself", seconds, findings)
    if findings and (code or _BAD.search(printed)):
        first = re.search(r"^kcheck: (\S+:\d+: .*)$", told, re.MULTILINE)
        return Judged(name, "finding", first.group(1)[:140] if first else "", seconds, findings)
    if code:
        last = (printed + told).strip().splitlines()
        return Judged(name, "fails", f"exit {code}: {last[-1][:100] if last else ''}", seconds, findings)
    if bad := _BAD.search(printed):
        return Judged(name, "disagrees", bad.group(0), seconds, findings)
    return Judged(name, "agrees" if _GOOD.search(printed) else "runs", "", seconds, findings)


def share(part: int, whole: int) -> str:
    """A percentage; ``-`` of nothing."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def page(rows: list[Judged], source: str) -> str:
    """The table, as Markdown."""
    counts = Counter(row.verdict for row in rows)
    judged = [row for row in rows if row.verdict not in ("not judged", "not built")]
    lines = [
        f"## {source}",
        "",
        f"{len(judged)} of {len(rows)} programs were built and run. {counts['agrees']} agree with their check, "
        f"and {counts['runs']} end normally but print nothing that the runner reads as a check: "
        f"{share(counts['agrees'] + counts['runs'], len(judged))} together. A timeout counts as a failure.",
        "",
    ]
    lines += [f"- {verdict}: {count}" for verdict, count in sorted(counts.items())]
    lines += ["", "| program | verdict | findings | detail |", "|---|---|---|---|"]
    lines += [
        f"| {row.name} | {row.verdict} | {row.findings or ''} | {row.detail.replace('|', '/')} |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """See the docstring of the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--title", default="Programs")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    from kcheck.driver.nvcc import find_nvcc

    nvcc = find_nvcc()
    if nvcc is None:
        sys.exit("no nvcc: install the toolkit, or pip install 'kcheck[nvcc]'")
    chosen = [path for path in programs(given.sources) if not given.names or path.name in given.names]
    chosen = chosen[given.every // 2 :: given.every]
    with tempfile.TemporaryDirectory() as place, concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        root = Path(place) / "sources"
        shutil.copytree(given.sources, root, ignore=shutil.ignore_patterns(".git"), symlinks=True)
        rows = []
        for row in pool.map(lambda path: judge(root / path.relative_to(given.sources), nvcc, given.limit), chosen):
            print(f"{row.name:32} {row.verdict:10} {row.seconds:5.1f} s {row.findings:3} {row.detail}", flush=True)
            rows.append(row)
    text = page(rows, given.title)
    if given.page:
        given.page.write_text(text)
    print(text.split("| program")[0])


if __name__ == "__main__":
    main()
