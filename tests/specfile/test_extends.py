"""``extends``: a spec that is another one but for what it says itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kcheck.errors import SpecError
from kcheck.generator.plan import plan
from kcheck.model import OpSpec, Span
from kcheck.specfile import discover, duplicate_ops, load_spec

TWIN = "kcheck: 1\nextends: specs/base.yaml\nop: twin\n"
BASE_KERNEL = "kernels/softmax.py:softmax"


@pytest.fixture
def base(project: Path, softmax: str) -> str:
    """The text of ``specs/base.yaml``, which is written."""
    (project / "kernels/other.py").write_text("def softmax(x, y): pass\ndef launch(x, y): pass\n")
    text = softmax + "tags: [control]\nexamples: [{dims: {M: 3}}]\ncases: {count: 9, seed: 5}\n"
    (project / "specs/base.yaml").write_text(text)
    return text


def _load(text: str, name: str = "twin") -> OpSpec:
    path = Path(f"specs/{name}.yaml")
    path.write_text(text)
    return load_spec(path)


def _faults(text: str) -> list[str]:
    with pytest.raises(SpecError) as refused:
        _load(text)
    return [str(fault) for fault in refused.value.faults]


def test_what_is_not_said_comes_from_the_other_file(base: str) -> None:
    """All but path and op are those of the base; what stands there keeps its place there."""
    whole, twin = load_spec(Path("specs/base.yaml")), _load(TWIN)
    assert (twin.op, twin.path, twin.span) == ("twin", "specs/twin.yaml", Span("specs/twin.yaml", 3, 5))
    # The defaults of keys that neither says are said to stand at the top of the file.
    same = dataclasses.replace(twin, **{key: getattr(whole, key) for key in ("op", "path", "span")})
    same = dataclasses.replace(same, tolerance=whole.tolerance, dtypes=whole.dtypes)
    assert same == whole
    assert twin.tolerance.kind == whole.tolerance.kind
    assert twin.dtypes["T"].choices == whole.dtypes["T"].choices
    assert str(twin.kernel) == BASE_KERNEL
    assert twin.dims["M"].span.file == "specs/base.yaml"
    assert duplicate_ops([whole, twin]) == ()


def test_a_key_that_is_given_replaces_the_other_whole(base: str) -> None:
    """``dims`` are not joined name by name, and a list does not grow."""
    twin = _load(f"{TWIN}tags: [buggy]\ndims: {{N: [7], M: [3]}}\nkernel: kernels/other.py:softmax\n")
    assert twin.tags == ("buggy",)
    assert list(twin.dims) == ["N", "M"]
    assert str(twin.kernel) == "kernels/other.py:softmax"
    missing = _faults(f"{TWIN}dims: {{N: [7]}}\n")
    assert missing[0] == "specs/base.yaml:6:14: unknown dim or param 'M' in shape [M, N]; available: N"


def test_launch_and_launcher_replace_each_other(base: str) -> None:
    """Each says how the kernel is launched, so giving one takes the place of the other."""
    with_launcher = _load(f"{TWIN}launcher: kernels/other.py:launch\n")
    assert with_launcher.launch is None
    assert str(with_launcher.launcher) == "kernels/other.py:launch"
    back = TWIN.replace("base", "twin").replace("op: twin", "op: back")
    again = _load(f"{back}launch: {{args: [x, y], grid: [1], block: [32]}}\n", "back")
    assert again.launcher is None
    assert again.launch is not None


def test_a_spec_may_extend_one_that_extends(base: str) -> None:
    """The nearest file that says a key is the one that counts."""
    _load(f"{TWIN}cases: {{count: 2}}\ntags: [near]\n")
    third = _load("kcheck: 1\nextends: specs/twin.yaml\nop: third\ntags: [nearest]\n", "third")
    assert (third.count, third.seed, third.tags, len(third.examples)) == (2, 0, ("nearest",), 1)


def test_cases_are_those_of_the_other_spec(base: str) -> None:
    """At the same seed every draw is the same: neither op nor file enters a seed."""
    whole, twin = load_spec(Path("specs/base.yaml")), _load(TWIN)
    for master in (0, 5):
        ours, theirs = (plan(spec, count=6, master=master) for spec in (twin, whole))
        assert [dataclasses.replace(case, spec=whole.path, op=whole.op) for case in ours] == list(theirs)


def test_the_other_file_need_not_be_good_alone(base: str) -> None:
    """A kernel that is not there and a key that is missing are no faults where they are replaced."""
    broken = base.replace(BASE_KERNEL, "kernels/gone.py:softmax").replace("op: softmax\n", "")
    Path("specs/base.yaml").write_text(broken.replace("reference: references/softmax.py:softmax\n", ""))
    own = f"{TWIN}kernel: kernels/other.py:softmax\nreference: references/softmax.py:softmax\n"
    assert str(_load(own).kernel) == "kernels/other.py:softmax"


@pytest.mark.parametrize(
    ("old", "new", "faults"),
    [
        (
            "inputs: {x: [M, N]}",
            "inputs: {x: [m, N]}",
            ["specs/base.yaml:6:14: unknown dim or param 'm' in shape [m, N]; did you mean 'M'?"],
        ),
        (
            "op: softmax",
            "op: softmax\nop: two",
            ["specs/base.yaml:3:1: duplicate key 'op'; it is first set on line 2; remove one"],
        ),
        ("\ndims: {M", "\ndimz: {M", ["specs/base.yaml:5:1: unknown key 'dimz'; did you mean 'dims'?"]),
        (
            "tags:",
            "\ttags:",
            ["specs/base.yaml:9:1: a tab cannot be used for indentation; indent with spaces"],
        ),
        ("reference:", "referense:", ["specs/base.yaml:4:1: unknown key 'referense'; did you mean 'reference'?"]),
        (
            "reference: references/softmax.py:softmax\n",
            "",
            [
                "specs/twin.yaml:1:1: missing key 'reference'; add 'reference: file.py:name', a NumPy function, "
                "or 'reference: none'"
            ],
        ),
    ],
)
def test_faults_of_the_other_file(old: str, new: str, faults: list[str], base: str) -> None:
    """They are told where they stand there; what neither says is missing in the file that extends."""
    Path("specs/base.yaml").write_text(base.replace(old, new))
    assert _faults(TWIN) == faults


@pytest.mark.parametrize(
    ("own", "fault"),
    [
        ("extends: specs/bas.yaml", "there is no file 'specs/bas.yaml' in the project; did you mean 'base.yaml'?"),
        ("extends: ../b.yaml", "the path '../b.yaml' is outside the project root; move the file into the project"),
        ("extends: specs", "'specs' is a folder; name a .yaml file"),
        ("extends: kernels/other.py", "'kernels/other.py' is not a spec; name a .yaml file"),
    ],
)
def test_extends_that_names_no_spec(own: str, fault: str, base: str) -> None:
    """One fault, at the value, and nothing of what follows from it."""
    assert _faults(f"kcheck: 1\n{own}\nop: twin\n") == [f"specs/twin.yaml:2:10: extends: {fault}"]


def test_extends_that_is_no_text(base: str) -> None:
    """The JSON Schema refuses it, and nothing is said to be missing."""
    form = "a spec of the project such as specs/softmax.yaml"
    assert _faults("kcheck: 1\nextends: [specs/base.yaml]\nop: twin\n") == [
        f"specs/twin.yaml:2:10: 'extends' must be {form}, not a list"
    ]
    assert _faults("kcheck: 1\nextends:\nop: twin\n") == [
        f"specs/twin.yaml:2:9: 'extends' has no value; write {form}"
    ]


def test_a_circle_of_one(base: str) -> None:
    """A spec that extends itself."""
    assert _faults(TWIN.replace("base", "twin")) == [
        "specs/twin.yaml:2:10: this spec extends itself: specs/twin.yaml -> specs/twin.yaml; break the cycle"
    ]


def test_a_circle_of_two_is_told_where_it_closes(base: str) -> None:
    """With the way round."""
    Path("specs/base.yaml").write_text(base + "extends: specs/twin.yaml\n")
    assert _faults(TWIN) == [
        "specs/base.yaml:12:10: this spec extends itself: specs/twin.yaml -> specs/base.yaml -> specs/twin.yaml;"
        " break the cycle"
    ]


def test_a_long_chain_ends(base: str) -> None:
    """Eight files are followed, a ninth is refused."""
    for number in range(8):
        text = f"kcheck: 1\nextends: specs/{f's{number - 1}' if number else 'base'}.yaml\nop: s{number}\n"
        Path(f"specs/s{number}.yaml").write_text(text)
    assert load_spec(Path("specs/s7.yaml")).count == 9
    assert _faults(TWIN.replace("base", "s7")) == [
        "specs/s0.yaml:2:10: specs/twin.yaml extends more than 8 specs in a chain; shorten the chain"
    ]


def test_an_own_op_is_asked_for(base: str) -> None:
    """An op is unique in a project, so it is not taken from the other file."""
    assert _faults("kcheck: 1\nextends: specs/base.yaml\n") == [
        "specs/twin.yaml:1:1: missing key 'op'; add 'op: name'"
    ]


def test_a_name_that_two_files_declare_says_which(base: str) -> None:
    """A line number alone would be one of the wrong file."""
    (found,) = (
        fault
        for fault in _faults(f"{TWIN}params: {{M: {{dtype: int32, values: [1]}}}}\n")
        if "already used" in fault
    )
    assert found.startswith("specs/twin.yaml:4:10: the name 'M' is already used by the dim in specs/base.yaml:5;")


def test_discovery_follows_it(base: str) -> None:
    """A kernel or reference stands for the specs that get it from another file, and not where it is replaced."""
    _load(TWIN)
    _load(f"{TWIN.replace('twin', 'own')}kernel: kernels/other.py:softmax\n", "own")

    def found(name: str) -> list[str]:
        return [path.stem for path in discover([Path(name)], recursive=False).specs]

    assert found("kernels/softmax.py") == ["base", "twin"]
    assert found("kernels/other.py") == ["own"]
    assert found("references/softmax.py") == ["base", "own", "twin"]
