"""Run many cases of a spec and print what one of them costs, as JSON: ``costs_child.py SPEC``."""

from __future__ import annotations

import gc
import io
import json
import sys
import tracemalloc
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from kcheck.cpu.memory import Memory
from kcheck.device import choose
from kcheck.device.staging import Staging
from kcheck.generator.expand import Expander
from kcheck.model import CaseFinished, Event
from kcheck.report import ReportSettings
from kcheck.report.console import ConsoleReporter
from kcheck.runner import Options, run
from kcheck.specfile import load_spec

FIRST, LAST = 100, 300
"""Cases between which costs are counted: by then everything is compiled."""


def count(counts: dict[str, int], owner: Any, name: str, what: str) -> None:
    """Count the calls of a function."""
    plain = getattr(owner, name)
    counts[what] = 0

    def counted(*arguments: Any, **keywords: Any) -> Any:
        counts[what] += 1
        return plain(*arguments, **keywords)

    setattr(owner, name, counted)


def costs(events: Iterator[Event], counts: dict[str, int]) -> dict[str, float]:
    """Per case: the counts, and the bytes that are kept. Under ``total ...``: the counts of the whole run."""
    reporter = ConsoleReporter(io.StringIO(), ReportSettings())
    before: dict[str, int] = {}
    cases = 0
    for event in events:
        reporter.handle(event)
        cases += isinstance(event, CaseFinished)
        if isinstance(event, CaseFinished) and cases in (FIRST, LAST):
            gc.collect()
            if cases == LAST:
                now = {**counts, "bytes": tracemalloc.get_traced_memory()[0]}
                each = {what: (now[what] - before[what]) / (LAST - FIRST) for what in now}
                return {**each, **{f"total {what}": number for what, number in counts.items()}}
            tracemalloc.start()
            before = {**counts, "bytes": tracemalloc.get_traced_memory()[0]}
    raise SystemExit(f"{cases} cases")


if __name__ == "__main__":
    device = choose("cpu")
    counts: dict[str, int] = {}
    count(counts, Memory, "allocate", "allocations")
    count(counts, import_module("numba.cuda.dispatcher")._Kernel, "launch", "numba")
    executor = import_module("kcheck.cpu.executor").Executor
    count(counts, executor, "launch", "launches")
    count(counts, executor, "load", "modules")
    count(counts, Staging, "fill", "copies to the device")
    count(counts, Staging, "fetch", "copies back")
    count(counts, Expander, "__init__", "expanders")
    loaded = SourceFileLoader.exec_module

    def exec_module(self: SourceFileLoader, module: ModuleType) -> None:
        counts["files of the project"] += Path(self.path).parent == Path.cwd()
        loaded(self, module)

    counts["files of the project"] = 0
    SourceFileLoader.exec_module = exec_module
    count(counts, import_module("kcheck.oracle.reference").Reference, "load", "evaluations")
    specs = [load_spec(Path(sys.argv[1]))]
    print(json.dumps(costs(run(specs, Options(count=LAST), device), counts)))
