"""The checks of ``kcheck doctor``. Each one yields lines; none imports numba or runs a kernel."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.errors import KcheckError
from kcheck.version import __version__

Status = Literal["ok", "warn", "error"]
_PACKAGES = ("numba", "numba-cuda", "llvmlite", "numpy", "cuda-bindings", "cuda-pathfinder")
_COMPILER = {"nvidia-cuda-nvrtc": "NVRTC", "nvidia-nvvm": "NVVM", "nvidia-nvjitlink": "nvJitLink"}
_NVVM_OF_12 = "nvidia-cuda-nvcc"  # CUDA 12 has NVVM in the wheel of its compiler


@dataclass(frozen=True, slots=True)
class CheckupLine:
    """One line of the report: a component, and whether it is usable.
    Attributes:
        fix: what to do about a warning or an error.
    """

    name: str
    value: str
    status: Status = "ok"
    fix: str = ""


def versions() -> Iterator[CheckupLine]:
    """Python and the packages that kcheck needs, and whether their versions fit together."""
    yield CheckupLine("kcheck", f"{__version__} in {Path(__file__).parents[1]}")
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield CheckupLine(
        "Python",
        platform.python_version(),
        "ok" if fits else "error",
        "" if fits else "use Python 3.11, 3.12 or 3.13",
    )
    needed = _needed("kcheck") | {
        f"{name} of {of}": r for of in ("numba", "numba-cuda") for name, r in _needed(of).items()
    }
    for package in _PACKAGES:
        installed = version_of(package)
        if not installed:
            yield CheckupLine(package, "not installed", "error", "pip install 'kcheck[cu13]'")
            continue
        misfit = next(
            (
                f"{key.partition(' of ')[2] or 'kcheck'} needs {package}{wanted}"
                for key, wanted in needed.items()
                if key.partition(" of ")[0] == package and not fits_requirement(installed, wanted)
            ),
            "",
        )
        fix = f"{misfit}: pip install --upgrade 'kcheck[cu13]'" if misfit else ""
        yield CheckupLine(package, installed, "error" if misfit else "ok", fix)
    yield from _compiler()


def _compiler() -> Iterator[CheckupLine]:
    """The wheels of the CUDA compiler: their CUDA version, and whether wheels of two versions are mixed."""
    found = {
        name: (metadata_name, version)
        for metadata_name, version in _nvidia().items()
        for name in (*_COMPILER, _NVVM_OF_12)
        if metadata_name in (name, f"{name}-cu12")
    }
    lacking = [label for name, label in _COMPILER.items() if name not in found]
    if _NVVM_OF_12 in found and "NVVM" in lacking:
        lacking.remove("NVVM")
    listed = " · ".join(f"{_COMPILER.get(name, 'NVVM')} {version}" for name, (_, version) in found.items())
    majors = {version.partition(".")[0] for _, version in found.values()}
    if not found:
        yield CheckupLine("CUDA compiler", "not installed", "error", "pip install 'kcheck[cu13]'")
    elif lacking:
        extra = f"cu{min(majors)}"
        yield CheckupLine(
            "CUDA compiler", f"{listed}; without {', '.join(lacking)}", "error", f"pip install 'kcheck[{extra}]'"
        )
    elif len(majors) > 1:
        fix = f"keep one CUDA version: pip uninstall {' '.join(name for name, _ in found.values())}, then "
        yield CheckupLine("CUDA compiler", listed, "warn", f"{fix}pip install 'kcheck[cu13]'")
    else:
        yield CheckupLine("CUDA compiler", f"CUDA {min(majors)}: {listed}")


def _nvidia() -> dict[str, str]:
    names = ((d.metadata["Name"] or "", d.version) for d in metadata.distributions())
    return {
        name.lower().replace("_", "-"): version for name, version in names if name.lower().startswith("nvidia")
    }


def version_of(package: str) -> str:
    """The installed version; empty if the package is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _needed(package: str) -> dict[str, str]:
    """The version requirements of a package, by the name of the required one; those of extras are ignored."""
    try:
        lines = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return {}
    found = (re.fullmatch(r"([\w.-]+)\s*([<>=!~][^;]*)?(;.*)?", line) for line in lines)
    return {m[1].replace("_", "-"): m[2].strip() for m in found if m and m[2] and not m[3]}


def fits_requirement(version: str, wanted: str) -> bool:
    """Whether a version is one of ``>=0.30,<0.31``. Only numbers are compared: 0.50.0dev0 counts as 0.50.0."""
    have = _numbers(version)
    for part in wanted.split(","):
        matched = re.fullmatch(r"\s*(>=|<=|==|!=|<|>|~=)\s*([\w.*+]+)\s*", part)
        if matched is None or "*" in matched[2]:
            continue
        bound = _numbers(matched[2])
        holds = {
            ">=": have >= bound,
            "<=": have <= bound,
            "<": have < bound,
            ">": have > bound,
            "==": have == bound,
            "!=": have != bound,
            "~=": have >= bound,
        }
        if not holds[matched[1]]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def devices(asked: str) -> Iterator[CheckupLine]:
    """Each device and whether it can run, then the one that a run would use.

    Args:
        asked: the device in the settings.
    """
    from kcheck.device.cpu import missing
    from kcheck.device.cuda import driver_answers

    has_gpu, no_cpu = driver_answers(), missing()
    yield CheckupLine("gpu", "found" if has_gpu else "no CUDA driver with a device (not required)")
    fix = (
        ""
        if "only" in no_cpu
        else "install what is missing; the simulator does not check for races"
        if no_cpu
        else ""
    )
    yield CheckupLine("cpu", no_cpu or "available", "warn" if no_cpu else "ok", fix)
    yield CheckupLine("simulator", "available")
    chosen = asked if asked != "auto" else "gpu" if has_gpu else "simulator" if no_cpu else "cpu"
    can_run = {"gpu": has_gpu, "cpu": not no_cpu, "simulator": True}.get(chosen, False)
    why = {"gpu": "a CUDA driver is available", "cpu": "there is no GPU"}.get(
        chosen, "there is no GPU, and cpu cannot run"
    )
    yield CheckupLine(
        "chosen",
        f"{chosen}: {why if asked == 'auto' else 'from the settings'}",
        "ok" if can_run else "error",
        "" if can_run else "set device: auto, or see `kcheck config`",
    )


def processor() -> Iterator[CheckupLine]:
    """The processor that the cpu device compiles for."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = f"{count} thread{'' if count == 1 else 's'}"
    try:
        from kcheck.cpu.jit import host

        found = host()
    except ImportError:
        yield CheckupLine("processor", f"{platform.machine()}, {threads}")
        return
    has = [
        label
        for flag, label in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("fma", "FMA"), ("f16c", "F16C"))
        if f"+{flag}" in found.features.split(",")
    ]
    yield CheckupLine("processor", f"{found.name}, {threads}, {found.width} lanes ({', '.join(has) or 'no AVX'})")


def caches(environment: Mapping[str, str]) -> Iterator[CheckupLine]:
    """The folder of compiled code: its size, and whether it can be written."""
    from kcheck.driver.install import settings

    try:
        folder = settings({**environment, "KCHECK_CC": ""}).cache
    except (KcheckError, AttributeError, ValueError, OSError):  # no sysconf here
        return
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        yield CheckupLine(
            "cache", f"{folder}: not writable", "warn", "set KCHECK_CACHE_DIR to a folder that you can write"
        )
        return
    yield CheckupLine("cache", f"{folder}: {size_of(folder)}")


def size_of(path: Path) -> str:
    """The size of a file, or of everything in a folder, such as ``1.5 MB``. Another process may delete files."""
    size = 0.0
    for file in [path] if path.is_file() else path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def project() -> Iterator[CheckupLine]:
    """The project of the current folder: root, settings, specs, store, pre-commit hook."""
    from kcheck.specfile.discover import project_specs
    from kcheck.specfile.paths import NO_PROJECT, nearest_root, shown
    from kcheck.specfile.project import read_project

    root = nearest_root(Path())
    if root is None:
        yield CheckupLine("root", NO_PROJECT, "warn", "run `kcheck init`, or change to your project")
        return
    yield CheckupLine("root", str(root))
    try:
        found = read_project(root)
        specs = list(project_specs(root))
    except KcheckError as error:
        *others, last = str(error).splitlines()
        yield from (CheckupLine("settings", line, "error") for line in others)
        fix = f"fix the line{'s' if others else ''}; `kcheck schema config` has every key"
        yield CheckupLine("settings", last, "error", fix)
        return
    yield CheckupLine("settings", found.file or "none: every setting has its default")
    folders = ", ".join(found.settings().specs)
    yield CheckupLine(
        "specs",
        f"{len(specs)} in {folders}",
        "ok" if specs else "warn",
        "" if specs else "run `kcheck init` for an example, or `kcheck init --kernel FILE:NAME`",
    )
    store = root / ".kcheck" / "store.db"
    if os.environ.get("KCHECK_STORE", "").lower() in ("off", "0", "false", "no"):
        yield CheckupLine("store", "off (KCHECK_STORE)")
    else:
        yield CheckupLine("store", f"{shown(store)}: {size_of(store)}" if store.exists() else "none yet")
    yield from _hook(root)


def _hook(root: Path) -> Iterator[CheckupLine]:
    """Whether commits are checked: kcheck in pre-commit's file, and pre-commit in git."""
    listed = root / ".pre-commit-config.yaml"
    named = listed.is_file() and "kcheck-" in listed.read_text("utf-8", errors="replace")
    if not named:
        yield CheckupLine("git hook", "none; see 'As a pre-commit hook' in the README")
    elif not (root / ".git/hooks/pre-commit").exists():
        yield CheckupLine("git hook", "configured, not installed", "warn", "run `pre-commit install`")
    else:
        yield CheckupLine("git hook", "pre-commit")
