"""The version of kcheck. Hatch reads it from here when it builds the wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

__version__ = "0.1.0.dev0"


def code_digest(*packages: ModuleType) -> str:
    """A digest of the source of packages, in hexadecimal: in a checkout, code changes without a new version."""
    digest = hashlib.blake2b(digest_size=16)
    for package in packages:
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
