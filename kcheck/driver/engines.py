"""Starts a device process for each program under ``kcheck exec`` that makes a CUDA call."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

DEVICE = "KCHECK_DEVICE"
"""The folder with the sockets of device processes, for the programs."""


class Engines:
    """Device processes of the programs of one command.

    Args:
        folder: for sockets; its path must be short (a Unix socket's has at most 107 bytes).
        variables: the environment of the command.
        libraries: the one to preload, then those that a program may be linked with.

    Attributes:
        variables: the environment of the command, with what programs need.
    """

    def __init__(self, folder: str, variables: Mapping[str, str], libraries: Sequence[Path]) -> None:
        self._folder = folder
        preload = os.pathsep.join(
            filter(None, (_without_blanks(libraries[0], folder), variables.get("LD_PRELOAD")))
        )
        places = [variables.get("LD_LIBRARY_PATH"), *(str(path.parent) for path in libraries)]
        search = os.pathsep.join(filter(None, places))
        self.variables = {**variables, "LD_PRELOAD": preload, "LD_LIBRARY_PATH": search, DEVICE: folder}
        self._plain = dict(variables)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(folder, "device"))
        self._listener.listen(64)
        self._watched, self._open = os.pipe()  # the second end is closed when this process ends, however it ends
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
                str(self._watched),
            ]
            # Its own process group: Ctrl-C is for the program, whose end ends the device process.
            process = subprocess.Popen(
                words,
                stdin=connection.fileno(),
                pass_fds=[self._watched],
                env=self._plain,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._processes.append(process)

    def close(self) -> None:
        """Wait for the device processes, which end with their programs, and end those that do not."""
        self._listener.close()
        late = [process for process in self._processes if not _ends(process)]
        os.close(self._open)
        for process in late:
            if not _ends(process):
                process.kill()
        os.close(self._watched)


def _ends(process: subprocess.Popen[bytes], seconds: float = 10) -> bool:
    """Wait for the end of a process; whether it ended in time."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _without_blanks(library: Path, folder: str) -> str:
    """A path of the library that LD_PRELOAD can hold: blanks and colons separate its entries."""
    if not any(char in str(library) for char in " :\t"):
        return str(library)
    link = os.path.join(folder, library.name)
    os.symlink(library, link)
    return link
