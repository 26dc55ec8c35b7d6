"""A process that runs cases for a worker of a cluster: ``python -m kcheck.runner.bench_process PIPE ALIVE``.

Args:
    PIPE: a file descriptor, from which a :class:`kcheck.runner.session.Setup` and then tasks are read, and to
        which answers are written.
    ALIVE: a file descriptor whose other end is in the worker: when that is closed, this process ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

from kcheck.children import die_with_pipe
from kcheck.device import choose_for
from kcheck.errors import DeviceUnavailable, UserError
from kcheck.model import OpSpec
from kcheck.runner.mirror import kept_contents, mirror
from kcheck.runner.options import Options
from kcheck.runner.session import Setup
from kcheck.runner.wire import at_worker, to_client
from kcheck.runner.worker import Answer, Done, Task, serve


class _Channel:
    """A :class:`kcheck.runner.worker.Channel` to the client, through the worker."""

    def __init__(self, pipe: Connection, folder: str) -> None:
        self._pipe = pipe
        self._folder = folder

    def send(self, answer: Answer | DeviceUnavailable | tuple[str, str]) -> None:
        """The first message is for the worker. Each answer follows a byte, which is 1 for the last of a task."""
        if isinstance(answer, DeviceUnavailable | tuple):
            self._pipe.send(answer)
        else:
            last = b"\1" if isinstance(answer, Done) else b"\0"
            self._pipe.send_bytes(last + to_client(answer, self._folder))

    def recv(self) -> Task:
        """The next task."""
        task: Task = at_worker(self._pipe.recv_bytes(), self._folder)
        return task


def _serve(pipe: Connection) -> None:
    setup: Setup = pipe.recv()
    with mirror(setup.manifest) as folder:
        os.chdir(folder + setup.manifest.cwd)
        content = kept_contents().get(setup.work)
        if content is None:
            raise UserError("the specs have not reached this worker; run the command again")
        specs: Sequence[OpSpec]
        options: Options
        specs, options = at_worker(content, folder)
        serve(_Channel(pipe, folder), lambda: choose_for(specs, setup.device, setup.targets), specs, options)


def main() -> None:
    """Run cases until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker handles Ctrl-C
    pipe = Connection(int(sys.argv[1]))
    die_with_pipe(int(sys.argv[2]))
    with contextlib.suppress(EOFError, ConnectionError):
        try:
            _serve(pipe)
        except UserError as error:
            pipe.send_bytes(pickle.dumps(UserError(str(error))))


if __name__ == "__main__":
    main()
