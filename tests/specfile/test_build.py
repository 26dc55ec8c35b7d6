"""What a valid spec becomes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.errors import SpecError
from kcheck.model import (
    SANITIZERS,
    Bounds,
    Choices,
    Compare,
    Distribution,
    FunctionRef,
    KernelRef,
    NameArg,
    OpSpec,
    Range,
    Span,
    StrideArg,
)
from kcheck.specfile import duplicate_ops, find_root, load_spec


def _load(text: str, name: str = "s.yaml") -> OpSpec:
    path = Path("specs") / name
    path.write_text(text)
    return load_spec(path)


def test_the_smallest_spec_has_its_defaults(project: Path, softmax: str) -> None:
    """What is left out is what SPEC says."""
    spec = _load(softmax)
    assert (spec.path, spec.root, spec.op) == ("specs/s.yaml", str(project), "softmax")
    assert spec.dtypes["T"].choices == ("float32",)
    x, y = spec.inputs["x"], spec.outputs["y"]
    assert (x.dtype, x.values, x.layouts) == ("T", (), ("contiguous",))
    assert (y.dtype, y.alias, y.layouts) == ("T", None, ("contiguous",))
    assert [size.text for size in x.shape] == ["M", "N"]
    assert spec.dims["N"].domain == Range(1, 2048)
    assert dict(spec.sanitize) == dict(SANITIZERS)
    assert {name for name, level in spec.sanitize.items() if level != "error"} == {"overflow"}
    assert (spec.count, spec.seed, spec.deterministic, spec.artifact) == (100, 0, None, None)
    assert (spec.tolerance.kind, spec.compare) == ("conditioned", Compare("match", signed_zero=False))
    assert (spec.description, spec.tags, spec.invariants, spec.examples, spec.compute) == ("", (), (), (), None)
    assert spec.kernel == KernelRef("kernels/softmax.py", "softmax", Span("specs/s.yaml", 3, 9), "numba")


def test_infinities_are_drawn_if_they_are_allowed(project: Path, softmax: str) -> None:
    """``allow_inf: true`` adds them to the values of an array, given or not."""
    names = {}
    for key, text in (("default", ""), ("given", ", values: [normal, inf_injected]"), ("off", "")):
        allowed = "false" if key == "off" else "true"
        spec = _load(softmax.replace("{x: [M, N]}", f"{{x: {{shape: [M, N]{text}, allow_inf: {allowed}}}}}"))
        names[key] = [drawn.name for drawn in spec.inputs["x"].values]
    assert names == {
        "default": ["normal", "uniform", "adversarial", "inf_injected", "empty_rows", "empty_tiles"],
        "given": ["normal", "inf_injected", "empty_rows", "empty_tiles"],
        "off": [],
    }


def test_the_default_type_variable_is_there_if_something_has_it(project: Path, softmax: str) -> None:
    """A case of a spec whose arrays are all int32 is not shown with T=float32."""
    integers = softmax.replace("{x: [M, N]}", "{x: {shape: [M, N], dtype: int32}}")
    assert list(_load(integers).dtypes) == ["T"]  # y still is
    integers = integers.replace("{y: [M, N]}", "{y: {shape: [M, N], dtype: int32}}")
    assert dict(_load(integers).dtypes) == {}
    assert list(_load(integers + "dtypes: [float32]\n").dtypes) == ["T"]


def test_a_whole_spec_keeps_everything(project: Path, softmax: str) -> None:
    """Every key of SPEC arrives in its place of the model."""
    (project / "kernels/generate.py").write_text("def rows(rng, shape, dtype, M, x): pass\n")
    text = softmax.replace(
        "{M: 1..64, N: 1..2048}", "{M: [3, 1], N: {range: 0..9, tile: [2, 4]}, K: {expr: 2 * N}}"
    )
    text = text.replace(
        "inputs: {x: [M, N]}",
        """\
description: rows
tags: [control]
constraints: [M * N <= 1_000_000]
dtypes: {T: [float32, float16], S: [int32]}
compute: float64
params: {scale: {dtype: float32, expr: 1 / sqrt(N + 1)}, eps: {dtype: T, values: [1e-6, .inf]}}
inputs:
  x: [M, N]
  i: {shape: [3], dtype: S, values: [{integers: [0, N - 1]}, {choice: [1, 2]}, {sorted: {offsets: K}}]}
  f: {shape: [M, N], values: [{from: ./kernels/generate.py:rows}, {constant: -.inf}, {offset: [1e3, 1]}]}""",
    )
    text = text.replace("y: [M, N]", "y: {shape: [M, N], alias: x}, z: [K]")
    text = text.replace("[x, y]", "[y, z, {N: int32}, {stride: [x, -1]}]").replace(
        "softmax.py:softmax\nref", "k.py:k\nref"
    )
    (project / "kernels/k.py").write_text("from somewhere import k\n")
    text += """\
tolerance: {float32: {atol: 1}}
compare: {nan: ignore, signed_zero: true}
invariants: [finite, {normalized: {of: z}}, "abs(z) <= 1"]
sanitize: {racecheck: off, overflow: error, unwritten: warn}
allow_races: [shared, z]
mutates: [i]
deterministic: false
artifact: {max_registers: 64, forbidden_patterns: ['\\.f64']}
cases: {count: 7, seed: 18446744073709551615}
examples: [{dims: {M: 3}, dtypes: {T: float16}, values: {f: normal}, layouts: {x: strided}, params: {eps: 1}}]
"""
    spec = _load(text)
    assert spec.dims["M"].domain == Choices((3, 1))
    assert spec.dims["N"].domain == Range(0, 9, (2, 4))
    assert str(spec.dims["K"].domain) == "2 * N"
    assert [str(constraint) for constraint in spec.constraints] == ["M * N <= 1_000_000"]
    assert spec.inputs["i"].values == (
        Distribution("integers", (0, "N - 1")),
        Distribution("choice", (1, 2)),
        Distribution("sorted", Distribution("offsets", "K")),
    )
    generator = spec.inputs["f"].values[0].argument
    assert isinstance(generator, FunctionRef)
    assert str(generator) == "kernels/generate.py:rows"
    assert spec.inputs["f"].values[1:] == (
        Distribution("constant", -math.inf),
        Distribution("offset", (1000.0, 1)),
    )
    assert spec.params["eps"].values == (1e-6, math.inf)
    assert (spec.outputs["y"].alias, spec.outputs["z"].alias) == ("x", None)
    assert spec.launch is not None
    passed = [(a.name, a.dtype) if isinstance(a, NameArg) else (a.array, a.axis) for a in spec.launch.args]
    assert passed == [("y", None), ("z", None), ("N", "int32"), ("x", -1)]
    assert isinstance(spec.launch.args[3], StrideArg)
    assert (spec.tolerance.kind, spec.tolerance.by_dtype) == ("fixed", {"float32": Bounds(1.0, 0.0)})
    assert spec.compare == Compare("ignore", signed_zero=True)
    assert [str(invariant) for invariant in spec.invariants] == ["finite", "normalized: z", "abs(z) <= 1"]
    levels = {"racecheck": "off", "overflow": "error", "unwritten": "warn"}
    assert spec.sanitize == {**SANITIZERS, **levels}
    assert (spec.allow_races, spec.mutates, spec.deterministic) == (("shared", "z"), ("i",), False)
    assert spec.artifact is not None
    assert (spec.artifact.targets, spec.artifact.max_registers) == (("sm_80",), 64)
    assert spec.artifact.forbidden_patterns == ("\\.f64",)
    assert (spec.count, spec.seed, spec.compute, spec.tags) == (7, 2**64 - 1, "float64", ("control",))
    assert spec.examples[0].dims == {"M": 3}
    assert spec.examples[0].values == {"f": Distribution("normal")}
    assert len(spec.functions) == 2  # the reference and the generator


@pytest.mark.parametrize("tolerance", ["conditioned", "calibrated"])
def test_tolerances_by_name(tolerance: str, project: Path, softmax: str) -> None:
    """Both names are kept as they stand."""
    assert _load(softmax + f"tolerance: {tolerance}\n").tolerance.kind == tolerance


def test_a_launcher_stands_in_for_kernel_and_launch(project: Path, softmax: str) -> None:
    """With a launcher, the kernel may be left out."""
    (project / "kernels/two.py").write_text("def launch(x, y, M):\n    pass\n")
    lines = [line for line in softmax.splitlines() if not line.startswith(("kernel", "launch"))]
    spec = _load("\n".join([*lines, "kernel: kernels/two.py:launch"]).replace("kernel: ", "launcher: ") + "\n")
    assert (spec.kernel, spec.launch, str(spec.launcher)) == (None, None, "kernels/two.py:launch")


@pytest.mark.parametrize(
    "source",
    [
        "@cuda.jit\ndef softmax(x, y): pass\n",
        "def impl(x, y): pass\nsoftmax = cuda.jit(fastmath=True)(impl)\n",
        "from .other import softmax\n",
        "from other import impl as softmax\n",
        "import softmax\n",
        "from other import *\n",
        "if True:\n    def softmax(x, y): pass\n",
        "try:\n    import softmax\nexcept ImportError:\n    softmax = None\n",
        "softmax: object = make()\n",
        "a, (b, softmax) = make()\n",
        "class softmax: pass\n",
        "@anything.at_all\ndef softmax(): pass\n",
        "with x:\n    softmax = 1\n",
        "# coding: latin-1\n# \xe9\ndef softmax(x, y): pass\n",
    ],
)
def test_definitions_are_found_without_importing(source: str, project: Path, softmax: str) -> None:
    """Decorated functions, assignments and imports define a name; nothing is run."""
    (project / "kernels/softmax.py").write_bytes(source.encode("latin-1"))
    assert _load(softmax).kernel is not None


@pytest.mark.parametrize(
    "source", ["def f():\n    def softmax(x, y): pass\n", "softmax.x = 1\n", "softmax: int\n", "print(softmax)\n"]
)
def test_what_is_not_at_the_top_level_is_no_definition(source: str, project: Path, softmax: str) -> None:
    """A nested function, an attribute or a bare annotation defines nothing that can be imported."""
    (project / "kernels/softmax.py").write_text(source)
    with pytest.raises(SpecError, match="does not define 'softmax'"):
        _load(softmax)


def test_links_that_leave_the_root_are_refused(
    project: Path, softmax: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A symbolic link inside of the project may not lead out of it; one within it may be used."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "softmax.py").write_text("def softmax(x, y): pass\n")
    (project / "kernels/link.py").symlink_to(outside / "softmax.py")
    with pytest.raises(SpecError, match=r"the path 'kernels/link\.py' is outside the project root"):
        _load(softmax.replace("kernels/softmax.py", "kernels/link.py"))
    (project / "kernels/inner.py").symlink_to(project / "kernels/softmax.py")
    assert _load(softmax.replace("kernels/softmax.py", "kernels/inner.py")).kernel is not None


def test_a_path_with_a_space_and_from_another_folder(
    project: Path, softmax: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Messages name the file as the user would type it; from elsewhere, absolutely."""
    path = project / "specs/two words.yaml"
    path.write_text(softmax.replace("op: softmax", "op: 5"))
    with pytest.raises(SpecError, match=r"^specs/two words\.yaml:2:5: 'op' must be"):
        load_spec(Path("./specs/two words.yaml"))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}:2:5: ")


@pytest.mark.parametrize("marker", ["kcheck.yaml", "pyproject.toml", ".git"])
def test_the_root_is_the_nearest_marked_folder(marker: str, tmp_path: Path) -> None:
    """Of several marked folders above a spec, the nearest is the root."""
    (tmp_path / "pyproject.toml").touch()
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / marker).mkdir()
    assert find_root(inner / "s.yaml") == tmp_path / "a"


def test_no_root_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a marked folder, the message says how to make one."""
    monkeypatch.setattr("kcheck.specfile.paths.ROOT_MARKERS", ("no-such-marker",))
    with pytest.raises(
        SpecError, match="put an empty no-such-marker into the folder that its paths are relative to"
    ):
        find_root(tmp_path / "s.yaml")


def test_ops_are_unique_in_a_project(project: Path, softmax: str) -> None:
    """The second spec of an op is told where the first one is."""
    specs = [
        _load(softmax, "a.yaml"),
        _load(softmax, "b.yaml"),
        _load(softmax.replace("op: s", "op: z"), "c.yaml"),
    ]
    assert [str(fault) for fault in duplicate_ops([*specs, specs[0]])] == [
        "specs/b.yaml:2:5: the op 'softmax' is already defined in specs/a.yaml:2; "
        "op names must be unique in a project; rename one of them"
    ]


def test_messages_stay_on_one_line(faults: Callable[[str], list[str]], softmax: str) -> None:
    """An escape in YAML cannot put a line break or a control character into a message."""
    (message,) = faults(softmax.replace("[M, N]}\nout", '[M, "N\\n+\\e[31m"]}\nout'))
    assert message.isprintable()
