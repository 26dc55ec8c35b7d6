"""``@kcheck.op``: the same spec as its YAML, read from the text of a Python file that is never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.errors import SpecError
from kcheck.generator import plan
from kcheck.specfile import discover, files_of, load_spec
from kcheck.specfile.declared import read_spec
from kcheck.specfile.emit import as_yaml
from kcheck.specfile.yamltree import parse, plain, read

FILE = Path("kernels/ops.py")
HEAD = """\
import kcheck
import numpy as np
import torch
from kcheck import op as declare
from numba import cuda
from numpy import float16 as half
from references.softmax import softmax as reference

raise RuntimeError("validation must not import this")
BLOCK = 128
SIZES: tuple = (1, 2, BLOCK)
twice = 1
twice = 2
computed = len("abc")


def limit():
    return 7


"""
REST = """, inputs={"x": ["M", "N"]}, outputs={"y": ["M", "N"]}, reference=reference,
    launch={"args": ["x", "y"], "grid": ["M"], "block": [BLOCK]})
@cuda.jit
def softmax(x, y):
    pass
"""
LINE = HEAD.count("\n") + 1


def declare(arguments: str, rest: str = REST) -> Path:
    """A file with one declared op."""
    FILE.write_text(f"{HEAD}@kcheck.op({arguments}{rest}")
    return FILE


def printed(path: Path) -> str:
    return as_yaml(read_spec(path)[0])


YAML = """\
kcheck: 1
op: softmax
kernel: kernels/ops.py:softmax
dims: {M: 1..64, N: 1..2048}
inputs: {x: [M, N]}
outputs: {y: [M, N]}
reference: kernels/ops.py:reference
launch: {args: [x, y], grid: [M], block: [128]}
"""


def test_a_declared_spec_is_printed_as_the_yaml_that_people_write(project: Path) -> None:
    assert printed(declare('dims={"M": range(1, 65), "N": "1..2048"}')) == YAML


@pytest.mark.parametrize(
    ("argument", "yaml"),
    [
        ('dims={"M": [1], "N": range(32, 129, 32)}', "dims: {M: [1], N: [32, 64, 96, 128]}"),
        ('dims={"M": SIZES, "N": 2 ** 4 - 1}', "dims: {M: [1, 2, 128], N: 15}"),
        ('dims=dict(M=range(1, BLOCK + 1 if 0 else 9), N=[4])', None),
        ("dims=dict(M=range(1, BLOCK), N=[4])", "dims: {M: 1..127, N: [4]}"),
        ("dtypes=[np.float32, half, torch.bfloat16, bool]", "dtypes: [float32, float16, bfloat16, bool]"),
        ('tolerance={"float32": {"atol": 1e-5, "rtol": -0.0}}', "tolerance: {float32: {atol: 1e-05, rtol: -0.0}}"),
        ('deterministic=True, description="a: b, #c"', 'deterministic: true\ndescription: "a: b, #c"'),
        ('constraints=["M * N % 2 == 0"], tags=["on"]', 'constraints: ["M * N % 2 == 0"]\ntags: ["on"]'),
    ],
)  # fmt: skip
def test_arguments_are_what_yaml_has(project: Path, argument: str, yaml: str | None) -> None:
    path = declare(argument)
    if yaml is None:
        with pytest.raises(SpecError, match=r"BLOCK \+ 1 if 0 else 9 cannot be read without running this file"):
            printed(path)
    else:
        assert yaml in printed(path)


@pytest.mark.parametrize(
    ("argument", "column", "message"),
    [
        ('dims={"M": limit(), "N": [1]}', 23, "dims.M: limit() cannot be read without running this file; write a"),

        ('dims={"M": twice, "N": [1]}', 23, "dims.M: twice cannot be read without running this file"),
        ('dims={"M": BLOK, "N": [1]}', 23, "dims.M: 'BLOK' is not defined in this file; did you mean 'BLOCK'?"),
        ('dims={"M": {1, 2}, "N": [1]}', 23, "dims.M: {1, 2} cannot be read"),
        ('dims={"M": 9 ** 9 ** 9, "N": [1]}', 23, "dims.M: 9 ** 9 ** 9: "),
        ('dims={"M": range(5, 5), "N": [1]}', 23, "dims.M: range(5, 5) is not a range of sizes; use an ascending"),
        ('dims={"M": [1], "M": [2]}', 28, "dims: duplicate key 'M'; it is first set on line"),
        ('dims={**SIZES}', 20, "dims: '**' cannot be read without running this file; write the keys"),
        ('**SIZES', 14, "'**' in kcheck.op cannot be read without running this file; write the keys"),
        ('kernel="kernels/ops.py:softmax"', 12, "'kernel' in kcheck.op: the decorated function is the kernel"),
        ('tolerance=lambda: 1', 22, "tolerance: lambda: 1 cannot be read"),
        ('launcher=lambda x: x', 21, "launcher: a lambda has no name, and a spec names its functions; define a"),
        ('launcher=np.sum', 21, "launcher: np.sum is not a name of this file; import it: from module import"),
        ('"softmax", [1]', 23, "kcheck.op takes one argument by position, the name of the op; name it"),
    ],
)  # fmt: skip
def test_what_the_text_does_not_show_is_refused_at_its_place(
    project: Path, argument: str, column: int, message: str
) -> None:
    with pytest.raises(SpecError) as refused:
        load_spec(declare(argument))
    assert f"kernels/ops.py:{LINE}:{column}: {message}" in str(refused.value)


FAULTY = {
    "dims: {M: 1..64, N: 1..2048}, referense: 1": "unknown key 'referense'",
    "dims: {M: 1..64}": "unknown dim or param 'N' in shape [M, N]",
    "dims: {M: 1..0, N: [1]}": "",
    "dims: {M: 1..64, N: [1]}, compute: float31": "'float31'",
    "dims: {M: 1..64, N: [1]}, constraints: ['M +']": "constraint",
}


@pytest.mark.parametrize("keys", FAULTY)
def test_errors_have_the_words_of_the_yaml_and_the_line_of_the_argument(project: Path, keys: str) -> None:
    tree, _ = parse("{" + keys + "}", "keys")
    arguments = ", ".join(f"{key}={value!r}" for key, value in plain(tree).items())
    with pytest.raises(SpecError) as declared:
        load_spec(declare(arguments))
    head, _, rest = YAML.partition("dims: {M: 1..64, N: 1..2048}\n")
    Path("specs/same.yaml").write_text(head + keys.replace("}, ", "}\n") + "\n" + rest)
    with pytest.raises(SpecError) as written:
        load_spec(Path("specs/same.yaml"))
    assert FAULTY[keys] in str(written.value)
    words = [[(fault.what, fault.fix) for fault in each.value.faults] for each in (declared, written)]
    assert sorted(words[0]) == sorted(words[1])
    lines = {fault.span.line for fault in declared.value.faults}
    assert lines <= {LINE, LINE + 1}
    assert {fault.span.file for fault in declared.value.faults} == {"kernels/ops.py"}


def test_an_error_inside_an_expression_is_at_its_column(project: Path) -> None:
    with pytest.raises(SpecError) as refused:
        load_spec(declare('dims={"M": [1], "N": [2]}, description="é", constraints=["M < K"]'))
    assert f"{FILE}:{LINE}:74: unknown dim" in str(refused.value)  # columns count characters, not bytes


def test_the_yaml_has_the_same_cases_and_seeds(project: Path) -> None:
    path = declare(
        'dims={"M": range(1, 65), "N": {"range": "1..300", "tile": BLOCK}}, dtypes=[np.float32, half], '
        'params={"k": {"dtype": "int32", "values": [1, 2]}}, cases={"count": 20, "seed": 3}, '
        'examples=[{"dims": {"M": 1, "N": 1}}]'
    )
    Path("specs/printed.yaml").write_text(printed(path))
    cases = []
    for spec in (load_spec(path), load_spec(Path("specs/printed.yaml"))):
        planned = plan(spec, count=spec.count, master=spec.seed)
        cases.append([(case.seed, case.id, case.layouts, case.values, case.params) for case in planned])
    assert cases[0] == cases[1]
    assert len(cases[0]) == 21


def test_every_spec_of_this_project_survives_printing(project: Path) -> None:
    """Long ones too, which are printed in several lines."""
    root = Path(__file__).resolve().parents[2]
    for path in sorted((root / "specs").glob("*.yaml")):
        tree, _ = read(path, path.name)
        again, faults = parse(as_yaml(tree), "printed")
        assert (plain(again), faults) == (plain(tree), []), path


@pytest.mark.parametrize(
    "text", ["on", "1", "1.0", "null", "~", "", " a", "a: b", "- a", "{", "é", "\x85\ufeff", "1..", "a\nb"]
)
def test_text_stays_text(project: Path, text: str) -> None:
    tree, _ = parse("description: x\nnested: [1]", "tree")
    made = as_yaml(type(tree)(tree.span, {**tree.entries, "description": _scalar(tree, text)}))
    assert plain(parse(made, "printed")[0])["description"] == text


def _scalar(tree, text: str):
    entry = tree.entries["description"]
    return type(entry)(entry.key, entry.span, type(entry.value)(entry.span, text, text, None))


@pytest.mark.parametrize(
    ("decorators", "keys", "way"),
    [
        ("@cuda.jit", "launch", "kernel"),
        ("@cuda.jit(debug=True)", "launch", "kernel"),
        ("@triton.jit", "launch", "kernel"),
        ("@functools.lru_cache", "launch", "kernel"),
        ("", "none", "function"),
        ("@jax.jit", "none", "function"),
        ("@numba.njit", "none", "function"),
    ],
)
def test_a_jitted_function_is_a_kernel_and_any_other_an_array_function(
    project: Path, decorators: str, keys: str, way: str
) -> None:
    imports = "import functools, jax, numba, triton\nimport kcheck as k\nfrom numba import cuda\n"
    launch = ", launch={'args': ['x', 'y'], 'grid': [1], 'block': [1]}" if keys == "launch" else ""
    FILE.write_text(
        f"{imports}def r(x): return x\n\n"
        f"@k.op('twice', dims={{'N': [1]}}, inputs={{'x': ['N']}}, outputs={{'y': ['N']}}, reference=r{launch})\n"
        f"{decorators}\ndef f(x, y): return x\n"
    )
    assert f"\n{way}: kernels/ops.py:f\n" in printed(FILE)


def test_the_kernel_has_its_kind_and_its_parameters_are_compared_with_args(project: Path) -> None:
    """Both orders of the decorators: neither changes the signature."""
    for above, below in (("@kcheck.op", "@cuda.jit"), ("@cuda.jit\n@kcheck.op", "")):
        text = f'{HEAD}{above}(dims={{"M": [1], "N": [2]}}{REST}'.replace("\n@cuda.jit\ndef", f"\n{below}\ndef")
        FILE.write_text(text.replace('"args": ["x", "y"]', '"args": ["y"]'))
        with pytest.raises(SpecError, match="takes 2 arguments, but args has 1"):
            load_spec(FILE)


TWO = """\
import kcheck

def same(x): return x

@kcheck.op(dims={"N": [1]}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=same)
def first(x): return x

@kcheck.op("second", dims={"N": [1]}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=same)
def other(x): return x
"""


@pytest.fixture
def two(project: Path) -> Path:
    """A file with two declared ops, next to one without."""
    FILE.write_text(TWO)
    return FILE


@pytest.mark.parametrize(
    ("argument", "found"),
    [
        ("kernels/ops.py", ["kernels/ops.py::first", "kernels/ops.py::second"]),
        ("kernels/ops.py::second", ["kernels/ops.py::second"]),
        ("kernels", ["kernels/ops.py::first", "kernels/ops.py::second"]),
        ("kernels/softmax.py", []),
    ],
)
def test_a_python_file_stands_for_the_ops_that_it_declares(two: Path, argument: str, found: list[str]) -> None:
    assert [str(path) for path in discover([Path(argument)], recursive=False).specs] == found


def test_declared_specs_in_a_spec_folder_are_found_by_the_files_that_they_use(two: Path) -> None:
    Path("kcheck.yaml").write_text("specs: [specs, kernels]\n")
    FILE.write_text(TWO.replace("def same(x): return x", "from references.softmax import softmax as same"))
    found = discover([Path("references/softmax.py")], recursive=False).specs
    assert [str(path) for path in found] == ["kernels/ops.py::first", "kernels/ops.py::second"]
    needed = {Path(file).name for file in files_of(found[0])}
    assert {"ops.py", "softmax.py", "kcheck.yaml"} <= needed


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("ops.py", "this file declares 2 ops: first, second; name one of them, such as kernels/ops.py::first"),
        ("ops.py::secnd", "this file declares no op 'secnd'; did you mean 'second'?"),
        ("softmax.py", "this file declares no op; decorate a kernel with @kcheck.op(...)"),
    ],
)
def test_an_op_that_is_not_declared_is_named(two: Path, path: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_spec(Path("kernels", path))
    assert str(refused.value).startswith(f"kernels/{path.partition('::')[0]}:1:1: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import kcheck\n@kcheck.op\ndef f(x): pass\n",
            "2:2: kcheck.op has no arguments; write @kcheck.op(dims=...",
        ),
        ("import kcheck\n@kcheck.op()\nclass F: pass\n", "3:1: kcheck.op decorates functions; declare a function"),
        (
            "import kcheck\nclass F:\n  @kcheck.op()\n  def f(x): pass\n",
            "3:4: kcheck.op on 'f', which is in a class; move it to the top level of the file",
        ),
        ("import kcheck\n@kcheck.op(\ndef f(x): pass\n", "2:11: this is not valid Python: '(' was never closed"),
    ],
)
def test_a_misplaced_decorator_is_an_error_not_a_file_without_specs(
    project: Path, faults: Callable[[str], list[str]], text: str, message: str
) -> None:
    FILE.write_text(text)
    assert discover([Path("kernels")], recursive=False).specs == (FILE,)
    with pytest.raises(SpecError) as refused:
        load_spec(FILE)
    assert str(refused.value).startswith(f"kernels/ops.py:{message}")


def test_a_declaration_inside_a_function_is_for_python_callers(project: Path) -> None:
    """A test may declare a kernel; its file is not a spec."""
    FILE.write_text("import kcheck\ndef test():\n    @kcheck.op(dims={})\n    def f(x): pass\n")
    assert discover([FILE], recursive=False).specs == ()


def test_a_declared_spec_may_extend_a_file(project: Path, softmax: str) -> None:
    Path("specs/base.yaml").write_text(softmax)
    FILE.write_text(
        "import kcheck\nfrom numba import cuda\n"
        '@kcheck.op("twin", extends="specs/base.yaml", cases={"count": 2})\n'
        "@cuda.jit\ndef f(x, y): pass\n"
    )
    spec = load_spec(FILE)
    assert (str(spec.kernel), spec.count, spec.launch is not None) == ("kernels/ops.py:f", 2, True)
