"""The inputs of a run, for signed reports: versions of packages and digests of files."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib import metadata
from pathlib import Path

from kcheck.model import OpSpec
from kcheck.specfile import files_of

_PACKAGES = ("numba", "numba-cuda", "llvmlite", "numpy", "ml_dtypes")


@cache
def versions() -> dict[str, str]:
    """The versions of the packages that compile kernels and judge them; kcheck's own is in every report."""
    return {name: metadata.version(name) for name in _PACKAGES}


def digests(spec: OpSpec) -> dict[str, str]:
    """SHA-256 of the files that the verdicts of a spec depend on, by path from its root, with forward slashes.

    Files outside the root, and files that do not exist, are omitted.
    """
    root = os.path.realpath(spec.root)
    found = {}
    for file in sorted(files_of(Path(root, spec.path))):
        inside = os.path.relpath(file, root)
        if inside.startswith("..") or not os.path.isfile(file):
            continue
        with open(file, "rb") as content:
            found[inside.replace(os.sep, "/")] = hashlib.file_digest(content, "sha256").hexdigest()
    return found
