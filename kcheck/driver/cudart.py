"""Builds the project's own CUDA runtime (``native/*.c``) with the host's C compiler, at first use.

The runtime is written on the driver API. In a Python process it finds the driver that the stub provides; a program
that is not Python has the *client* (``native/client.c``), which passes the calls to a device process.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kcheck.errors import DeviceUnavailable

_SOURCES = Path(__file__).parent / "native"
_RUNTIME = ("runtime.c", "properties.c", "memory.c", "graphs.c", "refused.c")
_CLIENT = ("client.c", "channel.c", "host_work.c", "copies.c", "code.c", "preload.c")
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")


def runtime_library(folder: Path, major: int = 13, environment: Mapping[str, str] = os.environ) -> Path:
    """``libcudart.so.<major>`` for a process that has the stub driver; the folder of the result contains a link
    ``libcudart.so`` to it, so it serves as ``-L`` too.

    Args:
        folder: the cache folder, such as :attr:`kcheck.driver.install.DeviceSettings.cache`.
        major: the version of CUDA whose functions and structs it has, 12 or 13.
        environment: ``CC`` names the compiler.

    Raises:
        DeviceUnavailable: there is no C compiler, or it fails.
    """
    soname = f"libcudart.so.{major}"
    script = f"{soname} {{ global: cuda*; __cuda*; local: *; }};\n"
    flags = (f"-DKCHECK_VERSION={major}000", f"-Wl,-soname,{soname}")
    path = _built(folder, "cudart", soname, _RUNTIME, flags, script, environment)
    link = path.with_name("libcudart.so")
    if not link.exists():
        _replace_link(link, soname)
    return path


def client_library(folder: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The library that ``kcheck exec`` preloads into programs: the runtime, and the client of the device process.
    A link ``libcuda.so.1`` beside it is for programs that are linked with the driver.

    Raises:
        DeviceUnavailable: as :func:`runtime_library`.
    """
    flags = ("-DKCHECK_CLIENT", "-ldl")
    path = _built(folder, "client", "libkcheck-cuda.so", _RUNTIME + _CLIENT, flags, "", environment)
    link = path.with_name("libcuda.so.1")
    if not link.exists():
        _replace_link(link, path.name)
    return path


def management_library(folder: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """``libnvidia-ml.so.1``, which says that there is one device (:mod:`kcheck.driver.smi`).

    Raises:
        DeviceUnavailable: as :func:`runtime_library`.
    """
    return _built(folder, "nvml", "libnvidia-ml.so.1", ("nvml.c",), (), "", environment)


def _built(
    folder: Path,
    kind: str,
    name: str,
    sources: tuple[str, ...],
    flags: tuple[str, ...],
    script: str,
    environment: Mapping[str, str],
) -> Path:
    """The path of a library in a folder of the cache that is named after its sources and flags."""
    digest = hashlib.blake2b(repr((sources, flags, script)).encode(), digest_size=8)
    for source in sorted(_SOURCES.iterdir()):
        digest.update(source.read_bytes())
    place = folder / "native" / f"{kind}-{digest.hexdigest()}"
    path = place / name
    if path.exists():
        return path
    compiler = _compiler(environment)
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, prefix=".build-") as aside:
        made = Path(aside) / name
        more: tuple[str, ...] = ()
        if script:
            (Path(aside) / "versions").write_text(script)
            more = (f"-Wl,--version-script={aside}/versions",)
        files = [str(_SOURCES / source) for source in sources]
        done = subprocess.run(
            [*compiler, *_FLAGS, "-o", str(made), *files, *flags, *more],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DeviceUnavailable(f"{shlex.join(compiler)} cannot build kcheck's CUDA runtime:\n{done.stderr}")
        os.replace(made, path)
    return path


def _compiler(environment: Mapping[str, str]) -> list[str]:
    """The C compiler: CC, or cc, gcc or clang in PATH."""
    chosen = shlex.split(environment.get("CC", ""))
    if chosen and shutil.which(chosen[0], path=environment.get("PATH")):
        return chosen
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name, path=environment.get("PATH")):
            return [found]
    raise DeviceUnavailable(
        "no C compiler: kcheck builds its CUDA runtime at first use; install gcc or clang, or set CC"
    )


def _replace_link(link: Path, target: str) -> None:
    aside = link.with_name(f".{link.name}-{os.getpid()}")
    aside.symlink_to(target)
    os.replace(aside, link)
