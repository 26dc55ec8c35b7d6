"""Starts a device process for each program under ``kcheck exec`` that makes a CUDA call."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping

from kcheck.driver.cudart import client_library

DEVICE = "KCHECK_DEVICE"
"""The folder with the sockets of device processes, for the programs."""


class Engines:
    """Device processes of the programs of one command.

    Args:
        folder: for sockets; its path must be short (a Unix socket's has at most 107 bytes).
        variables: the environment of the command, which gets what programs need: see :attr:`variables`.
    """

    def __init__(self, folder: str, variables: Mapping[str, str], library: str) -> None:
        self._folder = folder
        preload = os.pathsep.join(filter(None, (library, variables.get("LD_PRELOAD"))))
        self.variables = {**variables, "LD_PRELOAD": preload, DEVICE: folder}
        self._plain = dict(variables)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(folder, "device"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._start, args=(connection,), daemon=True).start()

    def _start(self, connection: socket.socket) -> None:
        with connection:
            hello = connection.recv(8, socket.MSG_WAITALL)
            if len(hello) != 8:
                return
            words = [
                sys.executable,
                "-m",
                "kcheck.driver.engine",
                self._folder,
                str(struct.unpack("<Q", hello)[0]),
            ]
            # Its own process group: Ctrl-C is for the program, whose end ends the device process.
            process = subprocess.Popen(
                words, stdin=connection, env=self._plain, stdout=subprocess.DEVNULL, start_new_session=True
            )
            self._processes.append(process)

    def close(self) -> None:
        """Wait for the device processes, which end with their programs, and end those that do not."""
        self._listener.close()
        for process in self._processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def library_for_programs(cache: os.PathLike[str], environment: Mapping[str, str]) -> str:
    """The path of the library that is preloaded into programs.

    Raises:
        DeviceUnavailable: it cannot be built.
    """
    from pathlib import Path

    return str(client_library(Path(cache), environment))
