"""Compiles kcheck's C++ parts of PyTorch with the headers of an installed PyTorch, once; they are cached."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.errors import DeviceUnavailable

NATIVE = Path(__file__).with_name("native")
_OPTIONS = ("-std=c++20", "-O1", "-fPIC", "-w")
_MANY_LINES = 20


@dataclass(frozen=True)
class TorchInstallation:
    """An installed PyTorch, imported or not.

    Attributes:
        folder: that of the package.
        version: the text of its ``version.py``, which differs between builds.
    """

    folder: Path
    version: str

    @property
    def include(self) -> list[str]:
        """The folders of its headers."""
        return [str(self.folder / "include"), str(self.folder / "include/torch/csrc/api/include")]

    @property
    def macros(self) -> list[str]:
        """The macros with which its C++ library was compiled."""
        new = b"__cxx11" in (self.folder / "lib/libc10.so").read_bytes()
        return [f"-D_GLIBCXX_USE_CXX11_ABI={int(new)}"]


def installed_torch() -> TorchInstallation:
    """The PyTorch that ``import torch`` finds.

    Raises:
        DeviceUnavailable: it has no headers.
    """
    spec = importlib.util.find_spec("torch")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place)
        if (folder / "include/c10").is_dir():
            return TorchInstallation(folder, (folder / "version.py").read_text())
    raise DeviceUnavailable("PyTorch has no C++ headers here; install a wheel of it: pip install torch")


@dataclass(frozen=True)
class NativeLibrary:
    """A shared library to build.

    Attributes:
        name: the file's name, which is also its SONAME.
        sources: files in :data:`NATIVE`.
        include: further folders of headers.
        links: options of the linker.
        what: what it is, for the note that it is built.
    """

    name: str
    sources: Sequence[str]
    include: Sequence[str] = ()
    links: Sequence[str] = ()
    what: str = "the cuda device"


def built(library: NativeLibrary, torch: TorchInstallation, cache: Path, environment: Mapping[str, str]) -> Path:
    """The path of a library, which is built if it is not in the cache. Two processes may do so at once.

    Args:
        cache: kcheck's cache folder.

    Raises:
        DeviceUnavailable: there is no C++ compiler, or it rejects the code.
    """
    path = path_of(library, torch, cache)
    if path.exists():
        return path
    compiler = _compiler(environment)
    number = torch.version.partition("__version__ = '")[2].partition("'")[0]
    print(f"kcheck: compiling {library.what} for PyTorch {number} (once; half a minute)", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".build-") as aside:
        made = _build(library, torch, compiler, Path(aside))
        os.replace(made, path)
    return path


def path_of(library: NativeLibrary, torch: TorchInstallation, cache: Path) -> Path:
    """Where a library is in the cache, once it is built."""
    return cache / "torch" / _key(library, torch) / library.name


def _key(library: NativeLibrary, torch: TorchInstallation) -> str:
    parts = [torch.version, str(torch.folder), library.name, *_OPTIONS, *library.include, *library.links]
    files = sorted(NATIVE.glob("*.h")) + [NATIVE / source for source in library.sources]
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=10)
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _compiler(environment: Mapping[str, str]) -> list[str]:
    named = environment.get("CXX")
    for words in ([shlex.split(named)] if named else []) + [["c++"], ["g++"], ["clang++"]]:
        if words and shutil.which(words[0]):
            return words
    raise DeviceUnavailable(
        "tensors on cuda need a C++ compiler, with which kcheck compiles its device for PyTorch once: install "
        "g++, or set CXX; or run without a cuda device: --torch-cuda off"
    )


def _build(library: NativeLibrary, torch: TorchInstallation, compiler: list[str], aside: Path) -> Path:
    folders = [f"-I{folder}" for folder in (str(NATIVE), *torch.include, *library.include)]

    def compiled(source: str) -> str:
        target = aside / f"{source}.o"
        _run([*compiler, *_OPTIONS, *torch.macros, *folders, "-c", str(NATIVE / source), "-o", str(target)])
        return str(target)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compiled, library.sources))
    made = aside / library.name
    libraries = str(torch.folder / "lib")
    links = [f"-L{libraries}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{libraries}", *library.links]
    _run([*compiler, "-shared", "-o", str(made), f"-Wl,-soname,{library.name}", *objects, *links])
    return made


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        lines = done.stdout.decode(errors="replace").splitlines()
        shown = "\n".join(lines[:_MANY_LINES])
        raise DeviceUnavailable(f"the C++ compiler rejects kcheck's device for PyTorch:\n{shown}")
