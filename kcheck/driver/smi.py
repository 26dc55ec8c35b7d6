"""What ``nvidia-smi`` says under ``kcheck exec``: programs and build scripts ask it whether there is a GPU.

It answers ``-L``, ``--query-gpu=...`` and a call without options. NVIDIA's management library (``native/nvml.c``)
has the same facts.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from kcheck.dataclass import dataclass

NVML = "KCHECK_NVML"
"""The environment variable with the facts of the device, :attr:`ToldDevice.text`."""

_MIB = 1 << 20
_UNKNOWN = "[N/A]"
_CUDA = (13, 0)
_DRIVERS = {12: "535.0", 13: "580.0"}
"""A version of the driver for each major version of CUDA."""
_COMPILERS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12")


@dataclass(frozen=True, slots=True)
class ToldDevice:
    """What programs learn about the device.

    Attributes:
        cc: compute capability.
        memory: bytes.
        cuda: the version of CUDA, as (13, 0).
        driver: the version of the driver.
        uuid: in NVIDIA's form.
    """

    name: str
    cc: tuple[int, int]
    memory: int
    cuda: tuple[int, int]
    driver: str
    uuid: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> ToldDevice:
        """The device that programs with these variables have."""
        from kcheck.driver.device import UUID
        from kcheck.driver.install import settings
        from kcheck.driver.machine import DEVICE_NAME

        chosen, cuda, digits = settings(environment), _cuda_version(), UUID.hex()
        uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return cls(DEVICE_NAME, chosen.cc, chosen.memory, cuda, _DRIVERS.get(cuda[0], "580.0"), f"GPU-{uuid}")

    @classmethod
    def read(cls, text: str) -> ToldDevice:
        """The device of :attr:`text`."""
        name, major, minor, memory, version, driver, uuid = text.split("\n")
        cuda = int(version) // 1000, int(version) % 1000 // 10
        return cls(name, (int(major), int(minor)), int(memory), cuda, driver, uuid)

    @property
    def text(self) -> str:
        """Lines: name, compute capability, memory, CUDA's version, the driver's, UUID. ``native/nvml.c`` reads
        them, and :meth:`read`: the process of ``nvidia-smi`` imports nothing that counts as use of the device."""
        version = 1000 * self.cuda[0] + 10 * self.cuda[1]
        return "\n".join(map(str, (self.name, *self.cc, self.memory, version, self.driver, self.uuid)))

    def fields(self) -> dict[str, tuple[str, str]]:
        """The fields of ``--query-gpu``: value and unit."""
        mib = str(self.memory // _MIB)
        return {
            "index": ("0", ""),
            "count": ("1", ""),
            "name": (self.name, ""),
            "gpu_name": (self.name, ""),
            "uuid": (self.uuid, ""),
            "gpu_uuid": (self.uuid, ""),
            "driver_version": (self.driver, ""),
            "compute_cap": (f"{self.cc[0]}.{self.cc[1]}", ""),
            "pci.bus_id": ("00000000:00:00.0", ""),
            "gpu_bus_id": ("00000000:00:00.0", ""),
            "memory.total": (mib, "MiB"),
            "memory.free": (mib, "MiB"),
            "memory.used": ("0", "MiB"),
            "utilization.gpu": ("0", "%"),
            "utilization.memory": ("0", "%"),
        }


def write_command(folder: Path) -> Path:
    """A folder with a command ``nvidia-smi``, for the front of ``PATH``."""
    folder.mkdir(exist_ok=True)
    command = folder / "nvidia-smi"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kcheck.driver.smi "$@"\n')
    command.chmod(0o755)
    return folder


def answer(words: Sequence[str], told: ToldDevice) -> tuple[int, str]:
    """Exit code and output of ``nvidia-smi`` with options."""
    options = {name: value for name, _, value in (word.partition("=") for word in words)}
    query, form = options.pop("--query-gpu", None), options.pop("--format", "csv")
    options.pop("--id", None)
    listed = bool({"-L", "--list-gpus"} & options.keys())
    rest = options.keys() - {"-L", "--list-gpus"}
    if rest or (listed and query is not None):
        what = " ".join(sorted(rest)) or "-L with --query-gpu"
        return 2, f"kcheck: the cpu device does not answer nvidia-smi {what}; it answers -L and --query-gpu=..."
    if query is not None:
        return 0, "\n".join(_queried(told, query.split(","), form.split(",")))
    if listed:
        return 0, f"GPU 0: {told.name} (UUID: {told.uuid})"
    cuda = f"{told.cuda[0]}.{told.cuda[1]}"
    return 0, (
        f"NVIDIA-SMI {told.driver}    Driver Version: {told.driver}    CUDA Version: {cuda}\n"
        f"GPU 0: {told.name}, {told.memory // _MIB} MiB (kcheck exec: kernels run on the CPU)"
    )


def _queried(told: ToldDevice, names: Sequence[str], form: Sequence[str]) -> list[str]:
    known = told.fields()
    found = [(name, *known.get(name, (_UNKNOWN, ""))) for name in map(str.strip, names)]
    units = "nounits" not in form
    rows = [f"{value} {unit}" if unit and units else value for _, value, unit in found]
    heads = [f"{name} [{unit}]" if unit and units else name for name, _, unit in found]
    return [*([] if "noheader" in form else [", ".join(heads)]), ", ".join(rows)]


def _cuda_version() -> tuple[int, int]:
    """That of the compiler that is installed, as the driver has it, whose library takes long to load."""
    for name in _COMPILERS:
        try:
            major, minor = metadata.version(name).split(".")[:2]
        except metadata.PackageNotFoundError:
            continue
        return int(major), int(minor)
    return _CUDA


def main() -> None:
    """``python -m kcheck.driver.smi OPTIONS``."""
    code, text = answer(sys.argv[1:], ToldDevice.read(os.environ[NVML]))
    print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)


if __name__ == "__main__":
    main()
