"""Processes that measure, a few at a time, and their cached answers on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.evidence.corpus import ROOT, control_spec, twins
from benchmarks.evidence.measure import Request, as_json

Answer: TypeAlias = dict[str, Any]
Measure: TypeAlias = Callable[[Request], Answer]

SECONDS = 1800
"""Seconds for one kernel: it takes half a minute on two free cores."""
_TAIL = 2000


@dataclass(frozen=True)
class Pool:
    """Measures kernels.

    Attributes:
        store: the folder of the answers.
        jobs: processes at a time.
        fresh: whether to measure again what is in the store.
        report: called with a line for each finished kernel.
    """

    store: Path
    jobs: int
    fresh: bool
    report: Callable[[str], None]

    def run(self, jobs: Sequence[Callable[[Measure], dict[str, Answer]]]) -> dict[str, Answer]:
        """Run jobs in parallel; each measures kernels, one after another, and returns the answers by name."""
        self.store.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(self.jobs) as threads:
            answers: dict[str, Answer] = {}
            for found in threads.map(lambda job: job(self.measure), jobs):
                answers |= found
            return answers

    def measure(self, request: Request) -> Answer:
        """The answer to a request, cached or new. The answer of a process that died holds ``died``."""
        path = self.store / f"{request.name}{'-soak' if request.soak else ''}-{key(request)}.json"
        if path.is_file() and not self.fresh:
            kept: Answer = json.loads(path.read_text(encoding="utf-8"))
            return kept
        begun = time.monotonic()
        answer = measured(request)
        seconds = time.monotonic() - begun
        self.report(f"{request.name}: {answer.get('died') or f'{seconds:.0f} s'}")
        if "died" not in answer:
            path.write_text(json.dumps(answer), encoding="utf-8")
        return answer


def measured(request: Request) -> Answer:
    """The answer of a separate process."""
    variables = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    try:
        child = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.evidence.measure"],
            input=as_json(request),
            cwd=ROOT,
            env=variables | {"OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"name": request.name, "died": f"not done after {SECONDS} s"}
    if child.returncode != 0:
        return {"name": request.name, "died": f"ended with {child.returncode}: {child.stderr[-_TAIL:]}"}
    answer: Answer = json.loads(child.stdout)
    return answer


def key(request: Request) -> str:
    """The inputs of an answer: kcheck, this package, the kernel, its reference and its spec."""
    found = {twin.name: twin for twin in twins()}.get(request.name) if request.twin else None
    op = request.name if found is None else found.of
    control = control_spec(op)
    named = (control.kernel, control.launcher, control.reference)
    files = [ROOT / control.path, *(ROOT / function.path for function in named if function is not None)]
    if found is not None:
        files += [found.kernel, found.spec]
    digest = blake2b(_code().encode() + as_json(request).encode(), digest_size=8)
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


_TELLING = ("cli", "report", "store", "minimize", "page.py", "tables.py", "pool.py", "__main__.py")
"""Files without effect on measurements."""


@cache
def _code() -> str:
    """A digest of all code that measures."""
    digest = blake2b(digest_size=8)
    for folder in (ROOT / "kcheck", Path(__file__).parent):
        for file in sorted(folder.rglob("*.py")):
            if file.relative_to(folder).parts[0] not in _TELLING:
                digest.update(file.read_bytes())
    return digest.hexdigest()
