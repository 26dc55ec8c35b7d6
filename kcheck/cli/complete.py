"""What the shell completes: specs, ops, ids and seeds of open failures, baselines, profiles, sanitizers.

Runs once for each press of the tab key, so it reads files and the store and imports neither numba nor a kernel. An
error means that there is nothing to complete: a message would break the command line that the user is typing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from kcheck.errors import KcheckError

_MOST = 200

Found = Iterable[tuple[str, str]]
"""Values, each with a one-line description, which zsh and fish show."""


def _root() -> Path | None:
    from kcheck.specfile.paths import nearest_root

    return nearest_root(Path())


def _spec_files() -> Iterator[Path]:
    from kcheck.specfile.discover import project_specs

    root = _root()
    for file in project_specs(root) if root is not None else ():
        yield Path(os.path.relpath(file))


def specs(_: click.Context) -> Found:
    """Spec files of the project, as paths from the current folder."""
    return ((path.as_posix(), "") for path in _spec_files())


def ops(_: click.Context) -> Found:
    """The op of each spec."""
    from kcheck.specfile.discover import named_ops

    for path in _spec_files():
        for name in named_ops(path):
            yield name, path.as_posix()


def seeds(ctx: click.Context) -> Found:
    """Seeds of stored failures, the latest first; of one op where --op is given."""
    from kcheck.store import Store

    root = _root()
    if root is None:
        return
    with Store.open(root) as store:
        for failure in store.failures(op=ctx.params.get("op") or "", states=("open",), most=_MOST):
            yield str(failure.case.seed), f"{failure.case.op} {failure.rule}"


def failures(ctx: click.Context) -> Found:
    """Names of open failures: ``last``, then ids, then seeds; of one op where --op is given."""
    from kcheck.store import Store

    root = _root()
    if root is None:
        return
    with Store.open(root) as store:
        found = store.failures(op=ctx.params.get("op") or "", states=("open",), most=_MOST)
    for failure in found[:1]:
        yield "last", f"{failure.case.op} {failure.rule}"
    for failure in found:
        yield failure.short, f"{failure.case.op} {failure.rule}"
    for failure in found:
        yield str(failure.case.seed), f"{failure.case.op} {failure.rule}"


def baselines(_: click.Context) -> Found:
    """Names of saved baselines."""
    from kcheck.store.baselines import names

    root = _root()
    return ((name, "") for name in (names(root) if root is not None else ()))


def profiles(_: click.Context) -> Found:
    """Names of profiles, the built-in ones included."""
    from kcheck.specfile.project import Project, project_of

    return ((name, "") for name in (project_of() or Project(Path())).profiles)


def sanitizers(_: click.Context) -> Found:
    """Names of sanitizers, and ``all``."""
    from kcheck.model import SANITIZERS

    return ((name, "") for name in (*SANITIZERS, "all"))


_Source = Callable[[click.Context], Found]
_FILES: Mapping[str, _Source] = {"paths": specs, "path": specs, "what": failures}
"""By name of a parameter whose value may also be a file."""
_WORDS: Mapping[str, _Source] = {
    "op": ops,
    "ops": ops,
    "case_seed": seeds,
    "profile": profiles,
    "sanitize": sanitizers,
}
_OF_COMMAND: Mapping[tuple[str, str], _Source] = {
    ("show", "seed"): seeds,
    ("reproduce", "seed"): seeds,
    ("minimize", "seed"): seeds,
    ("export", "seed"): seeds,
    ("diff", "name"): baselines,
    ("save", "name"): baselines,
    ("rm", "names"): baselines,
}


def install(command: click.Command) -> None:
    """Give the parameters of a command their completions."""
    for param in command.params:
        name = param.name or ""
        source = _OF_COMMAND.get((command.name or "", name)) or _WORDS.get(name)
        if source is None and command.name == "show" and name == "name":
            source = baselines
        if source is not None:
            setattr(param, "shell_complete", _completer(source, files=False))  # noqa: B010  # mypy: a method
        elif name in _FILES:
            setattr(param, "shell_complete", _completer(_FILES[name], files=True))  # noqa: B010


def _completer(source: _Source, *, files: bool) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        try:
            found = [
                CompletionItem(value, help=text or None)
                for value, text in dict(source(ctx)).items()
                if value.startswith(incomplete)
            ][:_MOST]
        except (KcheckError, OSError):
            found = []
        return found or ([CompletionItem(incomplete, type="file")] if files else [])

    return complete
