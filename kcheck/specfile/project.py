"""The settings of a project: ``kcheck.yaml`` in its root, or ``[tool.kcheck]`` in pyproject.toml.

This is the only module that reads them. The keys of a spec override them and are merged in ``build.py``; the
command line and the KCHECK_* variables override both and are merged in ``kcheck.cli.settings``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError, UserError
from kcheck.model import DEFAULT_CASES, DEFAULT_TARGETS, SANITIZERS, Fault, Level, as_set
from kcheck.model.baseline import Limit
from kcheck.model.limits import TIMEOUT
from kcheck.nearest import did_you_mean
from kcheck.specfile.paths import nearest_root, shown
from kcheck.specfile.reader import Reader
from kcheck.specfile.regression import read_regression
from kcheck.specfile.tomltree import read_table
from kcheck.specfile.yamltree import YamlMap, YamlNode, plain, read

FILE = "kcheck.yaml"
PYPROJECT = "pyproject.toml"
SCHEMA = "config.schema.json"
BUILT_IN: Mapping[str, Mapping[str, Any]] = {
    "quick": {"cases": 30},
    "ci": {"cases": 100},
    "nightly": {"cases": 5000, "sanitize": {"all": "error"}},
}
"""Built-in profiles. A profile of the same name in the project's file replaces it completely."""

DEFAULT = "default"
PROFILE_SOURCE = "profile "
"""The prefix of the source of values that a profile sets."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a project under one profile.

    Attributes:
        specs: the folders of the specs, relative to the root, with forward slashes.
        jobs: the number of worker processes, or ``auto``: as many as there are cores.
        timeout: seconds per case; None for no limit.
        sanitize: the level of every sanitizer in SANITIZERS.
        regression: limits by measure; only those that the project sets.
        source: where each value comes from, such as ``kcheck.yaml:3`` or ``profile ci``, by key, such as ``cases``
            or ``sanitize.racecheck``. Keys with their default are omitted.
    """

    specs: tuple[str, ...] = ("specs",)
    device: str = "auto"
    jobs: int | str = 1
    cases: int = DEFAULT_CASES
    timeout: float | None = TIMEOUT
    sanitize: Mapping[str, Level] = field(default_factory=lambda: dict(SANITIZERS))
    regression: Mapping[str, Limit] = field(default_factory=dict)
    targets: tuple[str, ...] = DEFAULT_TARGETS
    source: Mapping[str, str] = field(default_factory=dict)

    def source_of(self, key: str) -> str:
        """Where the value of a key comes from."""
        return self.source.get(key, DEFAULT)


@dataclass(frozen=True, slots=True)
class Project:
    """The content of a project's settings file.

    Attributes:
        root: the project root; absolute.
        file: the file with the settings, as the user would type it; empty if there is none.
        values: the settings outside profiles, as plain values.
        profiles: the settings of each profile, as plain values; includes the built-in ones.
        regression: the limits in ``values``, parsed.
        places: ``file:line`` of each value, by path: ``cases``, ``sanitize.all``, ``profiles.ci.cases``.
    """

    root: Path
    file: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: dict(BUILT_IN))
    regression: Mapping[str, Limit] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def settings(self, profile: str = "") -> Settings:
        """The file's values over the defaults, and a profile's values over both.

        Raises:
            UserError: there is no such profile.
        """
        if profile and profile not in self.profiles:
            fix = did_you_mean(profile, self.profiles) or f"available: {', '.join(self.profiles)}"
            raise UserError(f"unknown profile {profile!r}; {fix}")
        found: dict[str, Any] = {}
        source: dict[str, str] = {}
        for key in ("specs", "targets", "device", "jobs", "cases", "timeout"):
            if key in self.values:
                found[key] = self.values[key]
                source[key] = self.places[key]
        source |= {f"regression.{name}": self.places[f"regression.{name}"] for name in self.regression}
        levels: dict[str, Level] = dict(SANITIZERS)
        self._sanitize(levels, source, self.values.get("sanitize", {}), "", "")
        chosen = self.profiles[profile] if profile else {}
        by = f"{PROFILE_SOURCE}{profile}"
        for key in ("device", "jobs", "cases", "timeout"):
            if key in chosen:
                found[key] = chosen[key]
                source[key] = self._profile_place(profile, key, by)
        self._sanitize(levels, source, chosen.get("sanitize", {}), profile, by)
        if "timeout" in found:
            found["timeout"] = float(found["timeout"]) or None
        for key in ("specs", "targets"):
            if key in found:
                found[key] = tuple(found[key])
        return Settings(**found, sanitize=levels, regression=self.regression, source=source)

    def _sanitize(
        self, levels: dict[str, Level], source: dict[str, str], said: Mapping[str, Level], profile: str, by: str
    ) -> None:
        """Set levels. ``all`` is applied first, regardless of its position,
        so that named sanitizers override it."""
        for key in sorted(said, key=lambda key: key != "all"):
            for name in SANITIZERS if key == "all" else (key,):
                levels[name] = as_set(said[key])
                place = self.places.get(f"sanitize.{key}", "")
                source[f"sanitize.{name}"] = (
                    self._profile_place(profile, f"sanitize.{key}", by) if profile else place
                )

    def _profile_place(self, profile: str, key: str, by: str) -> str:
        place = self.places.get(f"profiles.{profile}.{key}")
        return f"{by} ({place})" if place else by


def project_of(path: Path | None = None) -> Project | None:
    """The project of a path, or of the current folder; None if no folder above is a project root.

    Raises:
        SpecError: its settings are wrong; contains every fault.
    """
    root = nearest_root(Path() if path is None else path)
    return None if root is None else read_project(root)


def read_project(root: Path) -> Project:
    """The settings of the project at a root. Files that did not change are not read again.

    Raises:
        SpecError: they are wrong (contains every fault), or both files have settings.
    """
    return _read(root, _stamp(root / FILE), _stamp(root / PYPROJECT), os.getcwd())


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _read(root: Path, own: object, pyproject: object, _here: str) -> Project:
    yaml_file, toml_file = root / FILE, root / PYPROJECT
    faults: list[Fault] = []
    tree: YamlMap | None = None
    file = yaml_file
    if own is not None and _says_something(yaml_file):
        tree, faults = read(yaml_file, shown(yaml_file))
    if pyproject is not None and b"kcheck" in toml_file.read_bytes():
        table = read_table(toml_file, shown(toml_file))
        if table is not None and tree is not None:
            what = f"the settings of kcheck are in {shown(yaml_file)} already"
            raise SpecError([Fault(table.span, what, "keep one of the two")])
        if table is not None:
            tree, file = table, toml_file
    if tree is None:
        return Project(root)
    return _checked(root, file, tree, faults)


def _says_something(path: Path) -> bool:
    """Whether a file has more than comments: an empty kcheck.yaml only marks a project root."""
    if not path.is_file():
        return False
    return any(
        line.strip() and not line.lstrip().startswith((b"#", b"---")) for line in path.read_bytes().splitlines()
    )


def _checked(root: Path, file: Path, tree: YamlMap, faults: list[Fault]) -> Project:
    from kcheck.specfile.schema import schema_faults

    refused, _ = schema_faults(tree, SCHEMA)
    reader = Reader(root, shown(file), tree)
    reader.faults += [*faults, *refused]
    regression = read_regression(reader, reader.get(tree, "regression"))
    if reader.faults:
        raise SpecError(sorted(set(reader.faults)))
    values = cast(dict[str, Any], plain(tree))
    profiles = {**BUILT_IN, **values.pop("profiles", {})}
    return Project(root, shown(file), values, profiles, regression, dict(_places(tree, "")))


def _places(node: YamlNode, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if isinstance(node, YamlMap):
        for key, entry in node.entries.items():
            found.append((prefix + key, f"{entry.span.file}:{entry.span.line}"))
            found += _places(entry.value, f"{prefix}{key}.")
    return found
