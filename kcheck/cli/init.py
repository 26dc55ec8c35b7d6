"""``kcheck init``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import click

from kcheck.errors import UserError

CI_FILES = {"github": ".github/workflows/kcheck.yml", "gitlab": "kcheck.gitlab-ci.yml"}
"""The file of a CI job, by code host."""


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--kernel", metavar="FILE:NAME", help="Draft a spec and a reference for this kernel instead of an example."
)
@click.option("--ci", "host", type=click.Choice(list(CI_FILES)), help="Write a CI job that runs `kcheck ci`.")
def command(folder: Path, kernel: str | None, host: str | None) -> None:
    """Create an example project, draft a spec for a kernel, or write a CI job.

    \b
      kcheck init                             an example project in this folder
      kcheck init demo                        the same in demo/
      kcheck init --kernel ops.py:softmax     draft a spec and a reference
      kcheck init --ci github                 .github/workflows/kcheck.yml

    The example has a correct kernel with its reference and spec, and a copy with a bug, in a folder that
    `kcheck run` skips. You can add it to an existing project. No file is overwritten: if any of the files exists,
    nothing is written.
    """
    if host is not None and kernel is not None:
        raise click.UsageError("--ci and --kernel cannot be combined")
    if host is not None:
        _ci(folder, host)
    elif kernel is None:
        _example(folder)
    else:
        _draft(folder, kernel)


def _ci(folder: Path, host: str) -> None:
    text = files("kcheck.cli").joinpath("templates", f"{host}.yml").read_text("utf-8")
    _write(folder, {CI_FILES[host]: text.replace(_INSTALLED, " ".join(map(repr, packages(folder))))})


_INSTALLED = "'kcheck[cu13]'"  # in the templates
_IMPORTS = re.compile(r"^[ \t]*(?:import|from)[ \t]+(triton|torch|jax|tensorflow)\b", re.MULTILINE)
_CURAND = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]curand_\w+\.h", re.MULTILINE)


def packages(folder: Path) -> list[str]:
    """What pip installs to run the specs of a project: kcheck, with the extras that their files import."""
    from kcheck.specfile.discover import files_of, project_specs

    read: set[str] = set()
    for spec in project_specs(folder.resolve()):
        read |= files_of(spec)
    extras = {"cu13"}
    more: list[str] = []
    for file in sorted(read):
        text = Path(file).read_text("utf-8", errors="replace") if os.path.isfile(file) else ""
        if file.endswith(".py"):
            extras.update(_IMPORTS.findall(text))
        elif _CURAND.search(text) and not more:
            more.append("nvidia-curand")
    return [f"kcheck[{','.join(sorted(extras))}]", *more]


def _example(folder: Path) -> None:
    from kcheck.draft.starter import BUGGY, FILES, SETTINGS, SPEC
    from kcheck.specfile.paths import ROOT_MARKERS

    texts = dict(FILES)
    if not any(os.path.lexists(folder / marker) for marker in ROOT_MARKERS):
        texts[SETTINGS[0]] = SETTINGS[1]
    _write(folder, texts)
    here = folder.resolve() == Path.cwd()
    click.echo("\nNext steps:")
    for line in _steps(
        *([] if here else [(f"cd {folder}", "")]),
        (f"kcheck run {SPEC}", "passes"),
        (f"kcheck run {BUGGY}", "shows a bug caught"),
        ("kcheck init --kernel FILE:NAME", "drafts a spec for your kernel"),
    ):
        click.echo(line)


def _draft(folder: Path, kernel: str) -> None:
    from kcheck.draft import op_name, reference_text, sketch, spec_text
    from kcheck.specfile.paths import nearest_root
    from kcheck.specfile.project import read_project

    path, name = split_kernel(kernel)
    root = Path(os.path.abspath(folder)) if folder != Path(".") else nearest_root(Path()) or Path.cwd()
    drawn = sketch(path, name)
    inside = os.path.relpath(path.resolve(), root.resolve())
    if inside.startswith(".."):
        raise UserError(f"{path} is not in the project {root}; run `kcheck init --kernel` in the kernel's project")
    op = op_name(name)
    specs = read_project(root).settings().specs[0] if root.is_dir() else "specs"
    spec, reference = f"{specs}/{op}.yaml", f"references/{op}.py"
    texts = {
        spec: spec_text(drawn, f"{Path(inside).as_posix()}:{drawn.kernel or name}", f"{reference}:{op}"),
        reference: reference_text(drawn, spec, reference),
    }
    if nearest_root(root / "specs") is None:
        from kcheck.draft.starter import SETTINGS

        texts[SETTINGS[0]] = SETTINGS[1]
    written = _write(Path(os.path.relpath(root)), texts)
    for guess in drawn.guesses:
        click.echo(f"note: {guess}")
    click.echo("\nNext steps:")
    for line in _steps(
        (f"edit {written[spec]}", "check every TODO"),
        (f"edit {written[reference]}", "return the correct results"),
        (f"kcheck run {written[spec]}", ""),
        (f"kcheck try {kernel}", "only the sanitizers, without a reference"),
    ):
        click.echo(line)


def split_kernel(text: str) -> tuple[Path, str]:
    """The file and the name of ``file.py:name``.

    Raises:
        UserError: the text has another form, or there is no such file.
    """
    file, separator, name = text.rpartition(":")
    if not separator or not name.isidentifier():
        raise UserError(f"{text!r} does not name a kernel; write FILE:NAME, such as kernels/softmax.py:softmax")
    if not Path(file).is_file():
        raise UserError(f"there is no file {file!r}")
    return Path(file), name


def _write(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Write files below a folder; returns their names as the user would type them.

    Raises:
        UserError: one of them exists, or cannot be written; the files written before it are removed.
    """
    taken = [str(folder / path) for path in texts if os.path.lexists(folder / path)]
    if taken:
        exist = "exists" if len(taken) == 1 else "exist"
        raise UserError(
            f"{', '.join(taken)} already {exist}; nothing was written: move the file or name another DIR"
        )
    done: list[Path] = []
    try:
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8", newline="\n") as file:
                done.append(target)
                file.write(text)
    except OSError as error:
        for target in done:
            target.unlink()
        raise UserError(f"{folder / path}: cannot write the file: {error.strerror}; nothing was written") from None
    for target in done:
        click.echo(f"created {target}")
    return {path: str(folder / path) for path in texts}


def _steps(*steps: tuple[str, str]) -> Iterator[str]:
    width = max(len(line) for line, _ in steps)
    for line, text in steps:
        yield f"  {line:<{width}}   {text}".rstrip()
