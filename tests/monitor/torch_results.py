"""Run the monitor's tests of torch where that is installed: ``python tests/monitor/torch_results.py [--write]``.

Prints a table of what passed; with --write it goes into docs/monitor.md.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/monitor.md"
BEGIN, END = "<!-- monitor torch -->\n", "<!-- /monitor torch -->"


class Passed:
    """Collects the names of tests as they end."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.skipped:
            name = report.nodeid.rpartition("::")[2].partition("[")[0]
            self.names[name] = "passed" if report.passed and self.names.get(name) in (None, "passed") else "no"


if __name__ == "__main__":
    passed = Passed()
    files = [str(Path(__file__).with_name(name)) for name in ("test_torch.py", "test_monitor_on_cuda.py")]
    code = pytest.main([*files, "-q", "-p", "no:cacheprovider", "-m", "not gpu"], [passed])
    if code or not passed.names or set(passed.names.values()) != {"passed"}:
        sys.exit(f"not every test passed: {passed.names}")
    rows = [("torch", metadata.version("torch")), ("triton", metadata.version("triton"))]
    rows += [(name.removeprefix("test_").replace("_", " "), word) for name, word in passed.names.items()]
    text = "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)
    print(text, end="")
    if "--write" in sys.argv:
        page = PAGE.read_text("utf-8")
        found = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", f"{BEGIN}{text}{END}", page, flags=re.DOTALL)
        PAGE.write_text(found, "utf-8")
