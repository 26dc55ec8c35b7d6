"""Finds the CUDA toolkit with which extensions are compiled."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from kcheck.dataclass import dataclass

DEFAULT_VERSION = "13.0"


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit: ``home/bin/nvcc``, and the version of its headers, such as ``13.0``."""

    home: Path
    version: str


def find_toolkit(environment: Mapping[str, str]) -> Toolkit | None:
    """The toolkit of ``CUDA_HOME`` or ``CUDA_PATH``, else that of NVIDIA's wheels for this Python, of the ``nvcc``
    in ``PATH``, or of ``/usr/local``; None if there is none."""
    for home in _homes(environment):
        if (home / "bin/nvcc").is_file() and (home / "include/cuda_runtime.h").is_file():
            return Toolkit(home, _version(home))
    return None


def _homes(environment: Mapping[str, str]) -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if named := environment.get(name):
            yield Path(named)
            return  # a wrong one is the user's error, which PyTorch reports
    for folder in sys.path:
        yield from sorted(Path(folder or ".").glob("nvidia/cu[0-9]*"), reverse=True)
    if nvcc := shutil.which("nvcc", path=environment.get("PATH")):
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), key=lambda home: _numbers(home.name), reverse=True)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _version(home: Path) -> str:
    try:
        text = (home / "include/cuda.h").read_text(errors="replace")
    except OSError:
        return DEFAULT_VERSION
    found = re.search(r"\bCUDA_VERSION +(\d+)$", text, re.MULTILINE)
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else DEFAULT_VERSION
