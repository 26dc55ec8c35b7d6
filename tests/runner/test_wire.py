"""What a worker of a cluster gets, and what comes back: copies of files, and pickles with paths in them."""

from __future__ import annotations

import os
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from kcheck.errors import UserError
from kcheck.model.coverage import CodePoint, Reached
from kcheck.runner.mirror import collected, digest_of, kept_contents, mirror
from kcheck.runner.session import keep, lacking
from kcheck.runner.wire import at_client, at_worker, to_client, to_worker
from kcheck.specfile import load_spec

SPEC = """\
kcheck: 1
op: op
function: code/op.py:op
reference: code/op.py:op
inputs: {x: [4]}
outputs: {y: [4]}
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A spec whose file imports another one, beside a file that nothing names; the caches are empty."""
    monkeypatch.setenv("KCHECK_CACHE_DIR", str(tmp_path / "cache"))
    root = tmp_path / "project"
    (root / "code").mkdir(parents=True)
    (root / "kcheck.yaml").write_text("")
    (root / "op.yaml").write_text(SPEC)
    (root / "code/op.py").write_text("import helper\n\n\ndef op(x):\n    return helper.twice(x)\n")
    (root / "code/helper.py").write_text("def twice(x):\n    return 2 * x\n")
    (root / "code/other.py").write_text("raise OSError\n")
    return load_spec(root / "op.yaml")


def files_below(folder):
    return {str(path)[len(str(folder)) :] for path in Path(folder).rglob("*") if path.is_file()}


def test_the_files_that_a_spec_needs_travel_and_no_others(spec):
    """The spec, the settings, the file that it names, and what that imports."""
    manifest, contents = collected([spec])
    names = {os.path.relpath(path, spec.root) for path in manifest.files}
    assert names == {"kcheck.yaml", "op.yaml", "code/op.py", "code/helper.py"}
    assert {digest_of(content) for content in contents.values()} == set(manifest.files.values())


def test_a_content_travels_once(spec):
    """What has come is not asked for again; what was damaged since is."""
    _, contents = collected([spec])
    assert set(lacking(tuple(contents))) == set(contents)
    keep(contents)
    assert lacking(tuple(contents)) == []
    (damaged, *_) = (kept_contents()._folder).iterdir()
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    assert len(lacking(tuple(contents))) == 1


def test_the_copy_has_its_path_from_run_to_run_and_follows_the_files(spec):
    """A run with other files changes it."""
    manifest, contents = collected([spec])
    keep(contents)
    with mirror(manifest) as first:
        assert files_below(first) == set(manifest.files)
    Path(spec.root, "code/helper.py").write_text("def twice(x):\n    return x + x\n")
    changed, contents = collected([spec])
    keep(contents)
    with mirror(changed) as second:
        assert second == first
        assert "x + x" in Path(f"{second}{spec.root}/code/helper.py").read_text()


def test_a_copy_in_use_does_not_change(spec):
    """A run with other files takes the next copy; one with the same files shares it."""
    manifest, contents = collected([spec])
    keep(contents)
    other = replace(manifest, files={})
    with mirror(manifest) as first, mirror(manifest) as same, mirror(other) as second:
        assert first == same != second
        assert files_below(first) == set(manifest.files)
        assert files_below(second) == set()


def _fill_and_list(manifest, contents, pipe):
    with mirror(manifest) as folder:
        pipe.send((folder, files_below(folder)))
        pipe.recv()


def test_processes_that_begin_together_share_a_copy(spec):
    """One of them writes it, and the others wait until it is whole."""
    manifest, contents = collected([spec])
    keep(contents)
    context = get_context("fork")
    pipes, started = [], []
    for _ in range(4):
        ours, theirs = context.Pipe()
        started.append(context.Process(target=_fill_and_list, args=(manifest, contents, theirs)))
        pipes.append(ours)
    for process in started:
        process.start()
    found = [pipe.recv() for pipe in pipes]
    for pipe, process in zip(pipes, started, strict=True):
        pipe.send("done")
        process.join()
    assert len({folder for folder, _ in found}) == 1
    assert all(files == set(manifest.files) for _, files in found)


def test_a_file_that_has_not_come_is_told(spec):
    """With its path."""
    manifest, _ = collected([spec])
    with pytest.raises(UserError, match="has not reached this worker"), mirror(manifest):
        pass


def test_paths_are_those_of_the_copy_there_and_of_the_project_here(spec):
    """In both directions, wherever they are in what travels; other texts stay."""
    roots = (spec.root,)
    there, text = at_worker(to_worker((spec, "no /path"), roots), "/copy")
    assert there.root == f"/copy{spec.root}"
    assert there.op == spec.op
    assert text == "no /path"
    point = CodePoint(((f"{there.root}/code/op.py", 5),))
    said = (Reached("code", (point,), b"\1"), f"cannot open {there.root}/x")
    (reached, message) = at_client(to_client(said, "/copy"))
    assert reached.points[0].lines == ((f"{spec.root}/code/op.py", 5),)
    assert message == f"cannot open {spec.root}/x"
