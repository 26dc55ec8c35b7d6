"""The extension in a real editor: ``python -m benchmarks.editor_end_to_end CODE_SERVER [--write]``.

code-server, which is VS Code for browsers, with the packaged extension, in a headless Chromium. The project has a
spec with a misspelled key, and one whose kernel lacks the guard of its tail. CODE_SERVER is the folder into which
``make editor-end-to-end`` installs it. ``--write`` writes the results to docs/editor_end_to_end.md.
PICTURES names a folder for a picture of the window at each check that fails.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from benchmarks.checks import Check, finish
from benchmarks.editor_browser import ROOT, Workbench, serving, version, wait

PAGE = ROOT / "docs/editor_end_to_end.md"
MISSPELLED = "op: twice\nkernel: k.py:twice\nrefrence: k.py:twice_of\n"
SPEC = """\
kcheck: 1
op: double
dims: {N: {range: 1..200, tile: 64}}
inputs: {x: [N]}
outputs: {y: [N]}
kernel: kernels/double.py:double
launch: {args: [x, y], grid: ["ceildiv(N, 64)"], block: [64]}
reference: kernels/double.py:reference
cases: {count: 4}
"""
KERNEL = """\
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + x[i]


def reference(x):
    return x + x
"""
FILES = {
    "kcheck.yaml": "specs: [specs]\n",
    "specs/twice.yaml": MISSPELLED,
    "specs/double.yaml": SPEC,
    "kernels/double.py": KERNEL,
}
_PROBLEMS = ".markers-panel"
_TERMINAL = ".terminal-wrapper .xterm-rows"
_TESTS = ".test-explorer .monaco-list-row"
_LONG = 100
"""Seconds for a run of kcheck, which may compile."""


def checks(bench: Workbench, address: str) -> Iterator[Check]:
    """Every check, one after another in one window."""
    bench.driver.get(address)
    ready = wait(lambda: bench.count(".monaco-workbench"), 90)
    yield "code-server opens the project", _yes(ready), ready
    yield from misspelled(bench)
    yield from failing(bench)
    yield from actions(bench)
    yield from explorer(bench)


def misspelled(bench: Workbench) -> Iterator[Check]:
    """A spec with an error, and the code action that corrects it."""
    opened = wait(lambda: "refrence" in bench.lines(), 60)
    yield "the spec is open", _yes(opened), opened
    squiggled = wait(lambda: bench.count(".squiggly-error"), 60)
    yield "squiggles of errors, from the language server", str(bench.count(".squiggly-error")), squiggled
    bench.keys(Keys.CONTROL, Keys.SHIFT, "m")
    told = wait(lambda: "did you mean" in bench.text(_PROBLEMS), 20)
    yield "the problems panel suggests the key", _or("did you mean 'reference'", bench.text(_PROBLEMS), told), told
    bar = bench.text(".part.statusbar")
    yield "kcheck in the status bar", _or("yes", bar, "kcheck" in bar.lower()), "kcheck" in bar.lower()
    bench.open("specs/twice.yaml", 3, 3)
    offered = bench.quick_fixes()
    right = bench.choose("Change to 'reference'") and wait(lambda: "reference: k.py" in bench.lines(), 20)
    yield "the code action corrects it", _or("Change to 'reference'", offered, right), right


def failing(bench: Workbench) -> Iterator[Check]:
    """A spec that is valid: lenses, the sizes of a dim, and the run on save."""
    bench.open("specs/double.yaml", 3, 8)
    lenses = "run | minimize"
    right = wait(lambda: lenses in bench.text(".codelens-decoration"), 30)
    yield "code lenses above the op", _or(lenses, bench.text(".codelens-decoration"), right), right
    bench.keys(Keys.CONTROL, "k")
    bench.keys(Keys.CONTROL, "i")
    sizes = "Boundary sizes: 1, 2, 31, 32, 33, 63, 64, 65"
    right = wait(lambda: sizes in bench.text(".monaco-hover"), 20)
    yield "hover on a dim lists its boundary sizes", _or("63, 64, 65", bench.text(".monaco-hover"), right), right
    bench.keys(Keys.ESCAPE)
    bench.keys(Keys.CONTROL, "s")
    right = wait(lambda: "memcheck" in bench.text(_PROBLEMS), _LONG)
    yield "saving the spec runs it; the problem", _or("memcheck", bench.text(_PROBLEMS), right), right
    bench.open("kernels/double.py", 7, 8)
    marked = wait(lambda: bench.count(".squiggly-error"), 30)
    yield "the line of the kernel is marked", _yes(marked), marked


def actions(bench: Workbench) -> Iterator[Check]:
    """What can be done about the failure, each in a terminal."""
    titles = ("Reproduce", "Minimize", "Show inputs")
    offered = bench.quick_fixes()
    right = all(title in offered for title in titles)
    yield "code actions of the failure", _or(", ".join(titles), offered, right), right
    for title, says in zip(titles, ("STILL FAILS", "SMALLEST", "state open"), strict=True):
        bench.open("kernels/double.py", 7, 8)
        bench.quick_fixes()
        chosen = bench.choose(title)
        right = chosen and wait(lambda says=says: says in bench.text(_TERMINAL), _LONG)  # type: ignore[misc]
        yield f"{title}: the terminal says", _or(says, bench.text(_TERMINAL)[-200:], right), right
    bench.open("specs/double.yaml", 3, 8)
    chosen = wait(lambda: bench.click(".codelens-decoration a", "run"), 30)
    says = "failed"
    right = chosen and wait(lambda: says in bench.text(_TERMINAL), _LONG)
    yield "the code lens run: the terminal says", _or(says, bench.text(_TERMINAL)[-200:], right), right


def explorer(bench: Workbench) -> Iterator[Check]:
    """The tree of tests, and a run from it."""
    bench.run("Testing: Focus on Test Explorer View")
    right = wait(lambda: "specs/double.yaml" in bench.text(_TESTS), 30)
    yield "the Test Explorer lists the specs", _or("specs/double.yaml", bench.text(_TESTS), right), right
    bench.run("Test: Run All Tests")
    failed = f"{_TESTS} .codicon-testing-failed-icon"
    right = wait(lambda: bench.count(failed), _LONG)
    yield "running all tests marks the spec as failed", _yes(right), right
    bench.click(_TESTS, "specs/double.yaml")
    bench.keys(Keys.ARROW_RIGHT)
    right = wait(lambda: bench.count(failed) > 1, 30)
    yield "failed cases below the spec", _yes(right), right


def _yes(right: bool) -> str:
    return "yes" if right else "no"


def _or(expected: str, found: str, right: bool) -> str:
    """The cell of the page: the expected text, or the text that was found."""
    return (expected if right else found or "nothing").replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Run the checks, print them, and write the page with ``--write``."""
    server = Path(arguments[0])
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(server, Path(folder), FILES, "specs/twice.yaml") as address,
    ):
        bench = Workbench()
        try:
            found = []
            for number, check in enumerate(checks(bench, address)):
                found.append(check)
                print(*check, file=sys.stderr, flush=True)
                if (pictures := os.environ.get("PICTURES")) and not check[2]:
                    bench.driver.save_screenshot(f"{pictures}/{number}.png")
        finally:
            bench.driver.quit()
    head = f"""# The extension in an editor

Written by `make editor-end-to-end`: code-server {version(server)}, VS Code in the browser, with the
packaged extension, in headless Chromium. Newer versions of code-server need Node.js 24.
"""
    return finish(head, found, PAGE if "--write" in arguments else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
