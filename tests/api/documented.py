"""Run the examples of every public name and its methods: ``python tests/api/documented.py``, in the checkout.

A separate process: the examples run kernels on the cpu device, which is chosen before numba.cuda is imported.
Prints what failed, and the names without an example.
"""

from __future__ import annotations

import doctest
import inspect
import sys
from types import ModuleType

import kcheck

RESULTS = {"Comparison", "Execution", "Failure", "Finding", "Lint", "Minimized", "Report", "Reproduction"}
"""What functions return; the example is in the docstring of the function."""
MONITOR = {"ExecutionOutlierDetector", "FunctionStats", "Mismatch", "Stats"}
"""What the monitor passes to callbacks and returns, and the base class of detectors."""
WITHOUT = {"__version__", "export", *RESULTS, *MONITOR}


def _name(member: object) -> str:
    return str(getattr(member, "__name__", "")).rpartition(".")[2]


def examples() -> tuple[list[doctest.DocTest], list[str]]:
    """The examples of public names, and the public names whose docstring has no example."""
    found, bare = [], []
    for name in kcheck.__all__:
        value = getattr(kcheck, name)
        members = [value]
        if isinstance(value, ModuleType):
            members = [getattr(value, member) for member in value.__all__]
        for member in members:
            if (
                name in WITHOUT
                or _name(member) in WITHOUT
                or (inspect.isclass(member) and issubclass(member, Exception))
            ):
                continue
            finder = doctest.DocTestFinder(recurse=inspect.isclass(member))
            tests = [test for test in finder.find(member, name, globs={}) if test.examples]
            found += tests
            bare += [] if tests else [name]
    return found, bare


if __name__ == "__main__":
    found, bare = examples()
    chosen = [test for test in found if not sys.argv[1:] or test.name in sys.argv[1:]]
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in chosen:
        runner.run(test)
    for name in bare:
        print(f"{name} has no example")
    print(f"{len(chosen)} names, {runner.tries} examples")
    sys.exit(bool(runner.failures or bare))
