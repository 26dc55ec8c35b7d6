"""The pytest plug-in: op specs are test files, and ``kcheck`` is a fixture. docs/pytest.md describes it.

pytest loads this module in every environment that has kcheck, so it imports nothing else of kcheck until a spec is
collected, and no Numba until a case runs.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kcheck.api import Report
    from kcheck.api.running import Sanitize
    from kcheck.api.spec import SpecLike
    from kcheck.model import Case, OpSpec

_SPEC_KEY = b"kcheck:"
_DECORATOR = re.compile(rb"^[ \t]*@.*\bop\b", re.MULTILINE)
DEVICES = ("auto", "gpu", "cpu", "simulator")
MOST_CASES = 1_000_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of specs in ``pytest --help``."""
    group = parser.getgroup("kcheck", "kcheck: op specs of GPU kernels")
    group.addoption(
        "--kcheck-cases", type=_count, metavar="N", help="number of cases per spec (default: the spec's)"
    )
    group.addoption("--kcheck-device", choices=DEVICES, help="where the kernels run (default: auto)")
    group.addoption("--kcheck-profile", default="", metavar="NAME", help="profile to use: quick, ci, nightly ...")


def _count(text: str) -> int:
    number = int(text)
    if not 0 <= number <= MOST_CASES:
        raise argparse.ArgumentTypeError(f"{number} is not a number of cases from 0 to {MOST_CASES:,}")
    return number


def pytest_configure(config: pytest.Config) -> None:
    """Install the selected device before a test file imports numba.cuda."""
    device = config.getoption("--kcheck-device")
    if device in ("cpu", "simulator"):
        from kcheck.api import use
        from kcheck.errors import DeviceUnavailable

        try:
            use(device)
        except DeviceUnavailable as error:
            raise pytest.UsageError(str(error)) from error


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SpecFile | None:
    """A YAML file with a line that starts with ``kcheck:`` is a spec; a Python file may declare specs.

    A test file may declare specs for its own tests, which are not collected.
    """
    wanted = _is_spec(file_path) if file_path.suffix in (".yaml", ".yml") else _declares(file_path, parent.config)
    if not wanted:
        return None
    made: SpecFile = SpecFile.from_parent(parent, path=file_path)
    return made


def _is_spec(path: Path) -> bool:
    with path.open("rb") as file:
        return any(line.startswith(_SPEC_KEY) for line in file)


class WithoutTests(pytest.Module):
    """A Python file that declares specs: pytest does not import it, so that kcheck can choose the device first."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return nothing: the specs are items of a SpecFile."""
        return ()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skip Python files that declare specs: pytest treats each file named on the command line as a test file."""
    if not _declares(module_path, parent.config):
        return None
    made: WithoutTests = WithoutTests.from_parent(parent, path=module_path)
    return made


def _declares(path: Path, config: pytest.Config) -> bool:
    """Whether a Python file that is not a test file has a function under
    ``@kcheck.op``. Most files are not parsed."""
    if path.suffix != ".py" or any(fnmatch(path.name, pattern) for pattern in config.getini("python_files")):
        return False
    data = path.read_bytes()
    if b"kcheck" not in data or not _DECORATOR.search(data):
        return False
    from kcheck.specfile.declared import declared_specs

    return bool(declared_specs(path))


class SpecFailed(Exception):
    """A spec has failing cases; the text is kcheck's report."""


class SpecFile(pytest.File):
    """A file with a spec, or a Python file that declares specs.

    Each spec has one item for its examples, one for each combination of dtypes, and one for ``artifact``.
    """

    def collect(self) -> Iterable[pytest.Item]:
        """The items, in the order of the spec. User code is not imported.

        Raises:
            CollectError: the spec is invalid.
        """
        path = Path(os.path.relpath(self.path))
        if path.suffix != ".py":
            yield from self._items(path)
            return
        from kcheck.specfile.declared import declared_specs

        for declared in declared_specs(path):
            yield from self._items(declared)

    def _items(self, path: Path) -> Iterator[pytest.Item]:
        from kcheck.errors import UserError
        from kcheck.specfile import load_spec

        try:
            spec = load_spec(path, self.config.getoption("--kcheck-profile"))
        except UserError as error:
            raise self.CollectError(str(error)) from None
        for name, chosen in _groups(spec):
            # pytest 9.2 splits ids at brackets for --lf; it finds the item again because the id is plain text.
            label = f"{spec.op}[{name}]"
            item = SpecItem.from_parent(self, name=label, nodeid=f"{self.nodeid}::{label}")
            item.begin(spec, chosen)
            yield item


def _groups(spec: OpSpec) -> Iterator[tuple[str, Callable[[Case], bool] | None]]:
    """(name, whether a case belongs to the group), in a fixed order; None for checks without cases."""
    if spec.examples:
        yield "examples", lambda case: case.label.startswith("example_")
    for dtypes in product(*(variable.choices for variable in spec.dtypes.values())):
        wanted = dict(zip(spec.dtypes, dtypes, strict=True))
        yield "-".join(dtypes) or "cases", _of_dtypes(wanted)
    if spec.artifact is not None:
        yield "artifact", None


def _of_dtypes(wanted: Mapping[str, str]) -> Callable[[Case], bool]:
    def chosen(case: Case) -> bool:
        return case.dtypes == wanted and not case.label.startswith("example_")

    return chosen


class SpecItem(pytest.Item):
    """A group of the cases of a spec."""

    _spec: OpSpec
    _chosen: Callable[[Case], bool] | None
    funcargs: dict[str, object]

    def begin(self, spec: OpSpec, chosen: Callable[[Case], bool] | None) -> None:
        """Set the cases of the item, because pytest creates items with its own arguments."""
        self._spec, self._chosen = spec, chosen
        self.funcargs = {}  # no fixtures; hooks of other plug-ins, such as pytest-lsp's, require it
        self.extra_keyword_matches.update((spec.op, *spec.tags))  # -k selects by tag

    def runtest(self) -> None:
        """Run the cases.

        Raises:
            SpecFailed: a case failed or could not be checked, or the compiled kernel violates ``artifact``.
        """
        if self._chosen is None:
            self._check_artifact()
            return
        report = self._run(self._chosen)
        if not report.cases:
            pytest.skip("no case of this run has these dtypes; raise --kcheck-cases")
        if not report.ok:
            raise SpecFailed(_failure(report))

    def _run(self, chosen: Callable[[Case], bool]) -> Report:
        from kcheck.api import Report
        from kcheck.runner import Options, run
        from kcheck.specfile.project import read_project

        settings = read_project(Path(self._spec.root)).settings(self.config.getoption("--kcheck-profile"))
        device = self.config.getoption("--kcheck-device")
        options = Options(
            command="pytest",
            count=self.config.getoption("--kcheck-cases"),
            timeout=settings.timeout,
            capture=True,
            device=device or "",
            profile=self.config.getoption("--kcheck-profile"),
            group=chosen,
            lint=False,
        )
        return Report(run([self._spec], options, self._choose(device or settings.device)))

    def _check_artifact(self) -> None:
        from kcheck.api.verdict import text_lines
        from kcheck.report.detail import finding_rows
        from kcheck.runner.linting import lint_spec

        device = None if self._spec.launch is not None else self._choose("cpu")
        found = lint_spec(self._spec, device, ())
        if found.findings:
            rows = [row for finding in found.findings for row in finding_rows(finding)]
            raise SpecFailed("\n".join([f"{self._spec.path}: the compiled kernel", *text_lines(rows, 2)]))
        if not found.metrics:
            pytest.skip("; ".join(found.notes) or "no kernel was compiled")

    def _choose(self, device: str) -> Any:
        from kcheck.device import choose_for

        return choose_for([self._spec], device, self._targets)

    @property
    def _targets(self) -> tuple[str, ...]:
        return () if self._spec.artifact is None else self._spec.artifact.targets[:1]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """kcheck's report or error message; for other exceptions, the traceback."""
        from kcheck.errors import UserError

        if isinstance(excinfo.value, SpecFailed | UserError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """The file, the line of ``op``, and the name."""
        return self.path, self._spec.span.line - 1, self.name


def _failure(report: Report) -> str:
    """A line for pytest's summary, then kcheck's report without its head."""
    rules = ", ".join(dict.fromkeys(failure.rule for failure in report.failures))
    head = f"{len(report.failures)} of {report.cases} cases failed: {rules}"
    return f"{head}\n\n{str(report).partition(chr(10) * 2)[2]}"


class Kcheck:
    """The ``kcheck`` fixture: the API with the options of this pytest run."""

    def __init__(self, config: pytest.Config) -> None:
        self._cases: int | None = config.getoption("--kcheck-cases")
        self._device: str = config.getoption("--kcheck-device") or "auto"

    def run(
        self,
        spec: SpecLike,
        *,
        kernel: Any = None,
        cases: int | None = None,
        seed: int | None = None,
        sanitize: Sanitize = None,
    ) -> Report:
        """Run a spec; the test fails with kcheck's report if a case fails. Arguments: as ``kcheck.check``."""
        from kcheck.api import check

        count = cases if self._cases is None else self._cases
        report = check(spec, kernel=kernel, cases=count, seed=seed, device=self._device, sanitize=sanitize)
        if not report.ok:
            pytest.fail(_failure(report), pytrace=False)
        return report

    def assert_close(self, actual: object, expected: object = None, **how: Any) -> None:
        """As :func:`kcheck.assert_close`."""
        from kcheck.api import assert_close

        assert_close(actual, expected, **how)

    def cases(self, spec: SpecLike, count: int | None = None, seed: int | None = None) -> Iterator[Any]:
        """As :func:`kcheck.cases`; ``--kcheck-cases`` sets the count."""
        from kcheck.api import cases

        return cases(spec, count if self._cases is None else self._cases, seed)


@pytest.fixture(scope="session")
def kcheck(request: pytest.FixtureRequest) -> Kcheck:
    """kcheck with the options of this run: ``kcheck.run(spec)``, ``kcheck.assert_close(...)``."""
    return Kcheck(request.config)
