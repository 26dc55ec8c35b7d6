"""Run the Python blocks of cuda-kernel-verifier's README, and its example, with their imports changed.

    python tests/monitor/verifier_readme.py CHECKOUT [--write]

Their text stays where it is: only the name of the module in import statements changes. Names that a block uses
and no block defines are the reader's kernels, which are Triton row sums here. The example trains on synthetic
digits in place of those that torchvision downloads. Everything runs under ``kcheck exec``, twice: with a correct
row sum, and with a wrong one, which must be reported. ``--write`` writes a table into docs/monitor.md.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "docs"), str(ROOT / "benchmarks")]

from page_blocks import blocks  # noqa: E402

MARKS = "<!-- verifier readme -->\n", "<!-- /verifier readme -->"
EXAMPLE = "examples/mnist_triton.py"
IMPORT = re.compile(r"^(from|import) cuda_kernel_verifier\b", re.MULTILINE)
PLANTED = "other=0.0", "other=1.0"
"""What turns the example's row sum into a wrong one: the columns beyond the last one count."""


def changed(text: str) -> str:
    """A program with kcheck's module in its imports.

    Raises:
        ValueError: it does not import cuda_kernel_verifier, or names it elsewhere too.
    """
    found, count = IMPORT.subn(r"\1 kcheck.monitor", text)
    if not count or "cuda_kernel_verifier" in found:
        raise ValueError("the program does not use cuda_kernel_verifier by one import")
    return found


def undefined(text: str, known: set[str]) -> set[str]:
    """The names that a program reads and never defines."""
    tree = ast.parse(text)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            made |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {node.id for node in names} - made - known - set(vars(builtins))


def headed_blocks(page: str) -> list[tuple[str, int, str]]:
    """(the heading above, the line, the text) of each Python block."""
    lines = page.splitlines()
    found = []
    for number, text in blocks(page):
        above = [line for line in lines[: number - 1] if re.match(r"#{2,} ", line)]
        found.append((above[-1].lstrip("# ").replace("`", "") if above else "", number, text))
    return found


# --- in a child process, under kcheck exec ---


def row_sum(is_wrong: bool) -> Any:
    """The kernel that the README leaves to its reader."""
    import torch
    import triton

    from tests.monitor.row_sum_kernel import sum_rows

    def launched(x: Any) -> Any:
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        columns = x.shape[1] - (x.shape[1] // 2 if is_wrong else 0)
        sum_rows[(x.shape[0],)](x, out, columns, x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
        return out

    return launched


def run_readme(page: Path, is_wrong: bool) -> list[dict[str, Any]]:
    """Run the blocks as one program, and call what each of them decorates."""
    import torch

    from kcheck.monitor import EquivalenceChecker, FailureCallbackArgs

    kernel = row_sum(is_wrong)
    given = {
        "FailureCallbackArgs": FailureCallbackArgs,
        "my_cuda_row_sum_kernel": kernel,
        "my_cuda_kernel": kernel,
    }
    names: dict[str, Any] = {"__name__": "__readme__"}
    rows = []
    for heading, line, block in headed_blocks(page.read_text("utf-8")):
        text = changed(block)
        missing = undefined(text, set(names))
        names |= {name: given[name] for name in missing}  # a KeyError: a name that is nobody's
        before = set(names)
        raised = called("\n" * (line - 1) + text, page, names)
        stats = EquivalenceChecker.stats()
        if not stats.calls:
            new = [names[name] for name in names if name not in before]
            made = [each for each in new if getattr(each, "__module__", "") == names["__name__"]]
            with_forward = [each.apply for each in made if hasattr(each, "forward") and hasattr(each, "apply")]
            decorated = [each for each in made if hasattr(each, "__wrapped__")]
            EquivalenceChecker.start(execution_sample_probability=1.0)
            for function in (*with_forward, *decorated):
                function(torch.rand(16, 100, device="cuda", requires_grad=bool(with_forward)))
            raised = stopped()
            stats = EquivalenceChecker.stats()
        rows.append(row(heading, stats, raised))
        EquivalenceChecker.start()
        EquivalenceChecker.stop()  # the counts begin anew
    return rows


def called(text: str, page: Path, names: dict[str, Any]) -> str:
    """Run a program; what the callback of a mismatch raised."""
    try:
        exec(compile(text, str(page), "exec"), names)
    except AssertionError as error:
        return str(error)
    return ""


def stopped() -> str:
    from kcheck.monitor import EquivalenceChecker

    try:
        EquivalenceChecker.stop()
    except AssertionError as error:
        return str(error)
    return ""


def row(heading: str, stats: Any, raised: str) -> dict[str, Any]:
    errors = stats.reference_errors + stats.copy_errors + sum(stats.dropped.values())
    counts = {name: getattr(stats, name) for name in ("calls", "checked", "mismatches")}
    return {"program": heading, **counts, "errors": errors, "raised": raised}


def run_example(file: Path, is_wrong: bool) -> list[dict[str, Any]]:
    """Run the example, with synthetic digits."""
    from kcheck.monitor import EquivalenceChecker

    text = changed(file.read_text("utf-8"))
    if is_wrong:
        assert text.count(PLANTED[0]) == 1
        text = text.replace(*PLANTED)
    digits(images=64 if is_wrong else 320)
    main: Any = ModuleType("__main__")
    sys.modules["__main__"] = main  # where pickle looks for its classes
    with TemporaryDirectory() as folder:
        program = Path(folder) / file.name  # Triton reads the text of kernels from their file
        program.write_text(text, "utf-8")
        main.__file__ = str(program)
        raised = called(text, program, vars(main))
    return [row(EXAMPLE, EquivalenceChecker.stats(), raised)]


def digits(images: int) -> None:
    """torchvision's two modules that the example imports: ten patterns of 28 x 28, with noise."""
    import torch

    class Digits(torch.utils.data.Dataset):
        def __init__(self, *_: Any, train: bool, **__: Any) -> None:
            generator = torch.Generator().manual_seed(int(train))
            patterns = torch.rand(10, 1, 28, 28, generator=torch.Generator().manual_seed(2))
            self.labels = torch.randint(10, (images if train else images // 5,), generator=generator)
            noise = torch.randn(len(self.labels), 1, 28, 28, generator=generator)
            self.images = patterns[self.labels] + 0.2 * noise

        def __len__(self) -> int:
            return len(self.labels)

        def __getitem__(self, number: int) -> tuple[Any, int]:
            return self.images[number], int(self.labels[number])

    found: Any = ModuleType("torchvision")
    found.datasets, found.transforms = ModuleType("torchvision.datasets"), ModuleType("torchvision.transforms")
    found.datasets.MNIST = Digits
    for step in ("Compose", "ToTensor", "Normalize"):
        setattr(found.transforms, step, lambda *_: None)
    sys.modules |= {each.__name__: each for each in (found, found.datasets, found.transforms)}


# --- in the parent ---


def results(checkout: Path, is_wrong: bool) -> list[dict[str, Any]]:
    """What the README and the example reported.

    Raises:
        RuntimeError: a program ended with an error.
    """
    found: list[dict[str, Any]] = []
    for name in ("README.md", EXAMPLE):
        own = [str(Path(__file__).resolve()), str(checkout / name), "--child", *(["--wrong"] if is_wrong else [])]
        command = [sys.executable, "-m", "kcheck", "exec", "--", sys.executable, "-W", "ignore", *own]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        found += json.loads(done.stdout.splitlines()[-1])
    return found


def table(right: list[dict[str, Any]], wrong: list[dict[str, Any]]) -> str:
    """
    Raises:
        AssertionError: nothing was checked, a mismatch was invented, or a wrong row sum was not reported.
    """
    lines = ["| program | calls | checked | mismatches | with a wrong row sum |", "|---|---:|---:|---:|---|"]
    for one, other in zip(right, wrong, strict=True):
        assert one["checked"] > 0, one
        assert one["errors"] == other["errors"] == 0, (one, other)
        is_placeholder = one["mismatches"] == one["checked"] == 1 and not one["raised"]  # `def my_kernel(x): ...`
        assert is_placeholder or (one["mismatches"] == 0 and not one["raised"]), one
        assert other["mismatches"] == other["checked"] > 0, other
        assert is_placeholder or "diverged" in other["raised"], other
        counts = f"{one['calls']} | {one['checked']} | {one['mismatches']}"
        told = "its body is `...`: a mismatch" if is_placeholder else f"raises: {other['raised']}"
        lines.append(f"| {one['program']} | {counts} | {told} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    arguments = [word for word in sys.argv[1:] if not word.startswith("--")]
    path = Path(arguments[0]).absolute()
    if "--child" in sys.argv:
        run = run_readme if path.suffix == ".md" else run_example
        print("\n" + json.dumps(run(path, "--wrong" in sys.argv)))
        return
    text = table(results(path, False), results(path, True))
    print(text, end="")
    if "--write" in sys.argv:
        from monitor_soak import write

        write(text, MARKS)


if __name__ == "__main__":
    main()
