"""Which specs the arguments of a command line stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.specfile import discover


@pytest.fixture
def tree(project: Path, softmax: str) -> Path:
    """Specs at two depths, an invalid one, one with its generator, and files that import each other."""
    for name, old, new in [
        ("a.yaml", "", ""),
        ("b.yml", "kernels/softmax", "kernels/other"),
        ("deep/c.yaml", "references/softmax", "references/pkg/inner"),
        ("deep/two words.yaml", "x: [M, N]", "x: {shape: [M, N], values: [normal, {from: references/gen.py:f}]}"),
        ("broken.yaml", "op: softmax", "op: ["),
        ("invalid.yaml", "op: softmax\nkernel: kernels/softmax", "opp: 5\nkernel: ./kernels/other"),
    ]:
        path = project / "specs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(softmax.replace(old, new, 1))
    (project / "specs/kcheck.yaml").touch()
    (project / "specs/calibration.yaml").touch()
    (project / "specs/.hidden.yaml").touch()
    (project / "specs/notes.txt").touch()
    (project / "references/pkg").mkdir()
    (project / "references/pkg/__init__.py").write_text("from ..shared import things\n")
    (project / "references/pkg/inner.py").write_text("from . import sibling\nimport references.absolute\n")
    for name in ("pkg/sibling", "absolute", "shared", "gen", "unused", "circular"):
        (project / f"references/{name}.py").write_text("import circular\nimport numpy\n")
    (project / "kernels/other.py").write_text("from lib.tiles import load\n")
    (project / "lib").mkdir()
    (project / "lib/tiles.py").write_text("")
    return project


@pytest.mark.parametrize(
    ("arguments", "recursive", "specs"),
    [
        (["specs"], False, ["a.yaml", "b.yml", "broken.yaml", "invalid.yaml"]),
        (
            ["specs/"],
            True,
            ["a.yaml", "b.yml", "broken.yaml", "deep/c.yaml", "deep/two words.yaml", "invalid.yaml"],
        ),
        (["./specs/a.yaml", "specs/a.yaml", "specs/../specs/a.yaml"], False, ["a.yaml"]),
        (["specs/deep/two words.yaml"], False, ["deep/two words.yaml"]),
        (["kernels/softmax.py"], False, ["a.yaml", "deep/c.yaml", "deep/two words.yaml"]),
        (["kernels/other.py"], False, ["b.yml", "invalid.yaml"]),
        (["lib/tiles.py"], False, ["b.yml", "invalid.yaml"]),
        (["references/gen.py"], False, ["deep/two words.yaml"]),
        (["references/pkg/inner.py"], False, ["deep/c.yaml"]),
        (["references/pkg/sibling.py"], False, ["deep/c.yaml"]),
        (["references/pkg/__init__.py"], False, ["deep/c.yaml"]),
        (["references/shared.py"], False, ["deep/c.yaml"]),
        (["references/absolute.py"], False, ["deep/c.yaml"]),
        (["references/unused.py"], False, []),
        (["specs/b.yml", "kernels/other.py", "references/unused.py"], False, ["b.yml", "invalid.yaml"]),
        (["specs/deep", "specs/a.yaml"], False, ["a.yaml", "deep/c.yaml", "deep/two words.yaml"]),
        ([], False, []),
    ],
)
def test_arguments_stand_for_specs(arguments: list[str], recursive: bool, specs: list[str], tree: Path) -> None:
    """Specs, folders, and Python files that specs name or whose files import them; each spec once, sorted."""
    found = discover([Path(argument) for argument in arguments], recursive)
    assert [path.as_posix() for path in found.specs] == [f"specs/{name}" for name in specs]
    assert found.faults == ()


def test_absolute_arguments_are_shown_from_here(tree: Path) -> None:
    """An absolute path below the current folder is the same spec as the relative one."""
    found = discover([tree / "specs/a.yaml", Path("specs/a.yaml"), tree / "kernels/other.py"], False)
    assert [path.as_posix() for path in found.specs] == ["specs/a.yaml", "specs/b.yml", "specs/invalid.yaml"]


def test_from_elsewhere_paths_are_absolute(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spec that is not below the current folder is named in full."""
    monkeypatch.chdir(tree / "kernels")
    assert discover([Path("../specs/a.yaml")], False).specs == (tree / "specs/a.yaml",)


def test_a_near_name_is_near_without_its_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every spec ends in .yaml, which makes no name like another."""
    monkeypatch.chdir(tmp_path)
    for name in ("histogram.yaml", "softmax.py", "softmax.yaml", "scan.yaml"):
        Path(name).touch()
    fixes = {
        name: str(discover([Path(name)], False).faults[0].fix) for name in ("softmx.yaml", "relu.yaml", "x.yaml")
    }
    assert fixes == {"softmx.yaml": "did you mean 'softmax.yaml'?", "relu.yaml": "", "x.yaml": ""}


def test_a_near_name_may_have_another_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("softmax.yaml").touch()
    (fault,) = discover([Path("softmax.yml")], False).faults
    assert fault.fix == "did you mean 'softmax.yaml'?"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("specs/aa.yaml", "specs/aa.yaml: no such file or folder; did you mean 'specs/a.yaml'?"),
        ("spec/a.yaml", "spec/a.yaml: there is no folder 'spec'; did you mean 'specs'?"),
        ("spec", "spec: no such file or folder; did you mean 'specs'?"),
        (
            "kernels/softmax.py:k",
            "kernels/softmax.py: 'kernels/softmax.py:k' names a kernel, not a spec; "
            "for the specs that use the file: kcheck run kernels/softmax.py; "
            "without a spec: kcheck try kernels/softmax.py:k",
        ),
        (
            "specs/notes.txt",
            "specs/notes.txt: this is not a spec, a folder of specs, "
            "or a source file that a spec uses; name a .yaml file",
        ),
    ],
)
def test_what_names_nothing_is_a_fault_beside_what_is_found(argument: str, message: str, tree: Path) -> None:
    """A mistyped argument is reported with its neighbors, and the others are still found."""
    found = discover([Path(argument), Path("specs/a.yaml")], False)
    assert [str(fault) for fault in found.faults] == [message]
    assert found.specs == (Path("specs/a.yaml"),)


def test_a_link_to_nothing_says_where_it_leads(tree: Path) -> None:
    """The link is there, so it is not said to be missing, and its own name is not offered in its place."""
    Path("specs/link.yaml").symlink_to("gone.yaml")
    (fault,) = discover([Path("specs/link.yaml")], False).faults
    assert str(fault) == (
        "specs/link.yaml: this link points to 'gone.yaml', which does not exist; fix or remove the link"
    )


def test_a_circle_of_links_ends(tree: Path) -> None:
    """A folder that links to itself is walked once."""
    (tree / "specs/loop").symlink_to(tree / "specs")
    assert len(discover([Path("specs")], recursive=True).specs) == 6
