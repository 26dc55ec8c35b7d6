"""Finds nvcc: in PATH, in a toolkit, or in NVIDIA's wheels (the extra ``nvcc``)."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def find_nvcc(environment: Mapping[str, str] = os.environ) -> str | None:
    """The path of nvcc; None if there is none."""
    if found := shutil.which("nvcc", path=environment.get("PATH")):
        return found
    homes = [Path(environment[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    homes += [Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    wheels = importlib.util.find_spec("nvidia")
    for place in wheels.submodule_search_locations or [] if wheels else []:
        homes += [Path(place, "cu13"), Path(place, "cuda_nvcc")]
    for home in homes:
        if os.access(home / "bin" / "nvcc", os.X_OK):
            return str(home / "bin" / "nvcc")
    return None
