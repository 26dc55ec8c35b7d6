"""Messages between a grader and the process of a candidate: a JSON header and blobs of bytes.

Nothing that comes from a candidate is unpickled, evaluated or trusted: sizes are limited, and every field is
checked where it is read (:mod:`kcheck.grading.wire`). What goes to a candidate's process comes from the grader, so
it is a pickle.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from kcheck.dataclass import dataclass

_HEAD = struct.Struct("<4sIQ")
_MAGIC = b"kcg1"
_MOST_HEADER = 4 << 20
_STEP = 0.05


class MemoryExceeded(Exception):
    """The other end takes more memory than it may."""


class BadMessage(Exception):
    """What arrived is not a message that kcheck's own code sends."""


class OtherEndClosed(Exception):
    """The other end is closed."""


class Late(Exception):
    """No message arrived in time."""


@dataclass(frozen=True, eq=False, slots=True)
class Received:
    """A message: the fields of its header, and its blobs."""

    fields: dict[str, Any]
    blobs: tuple[bytes, ...]


class ByteChannel:
    """One end of a connection.

    Args:
        most: how many bytes the blobs of a message that arrives may have.
        watch: called while this end waits, every 50 ms; may raise.
    """

    def __init__(self, end: socket.socket, most: int = 1 << 32, watch: Callable[[], None] | None = None) -> None:
        self._socket = end
        self._most = most
        self._watch = watch

    def send(self, fields: dict[str, Any], blobs: Sequence[bytes | memoryview] = ()) -> None:
        """Send a header and blobs.

        Raises:
            OtherEndClosed: the other end is closed.
        """
        views = [memoryview(blob).cast("B") if len(blob) else memoryview(b"") for blob in blobs]
        header = json.dumps({**fields, "sizes": [view.nbytes for view in views]}).encode()
        try:
            self._socket.sendall(_HEAD.pack(_MAGIC, len(header), sum(view.nbytes for view in views)) + header)
            for view in views:
                self._socket.sendall(view)
        except OSError as error:
            raise OtherEndClosed from error

    def receive(self, deadline: float | None = None) -> Received:
        """The next message.

        Args:
            deadline: a time of ``time.monotonic``.

        Raises:
            BadMessage, OtherEndClosed, Late: there is none.
        """
        magic, length, size = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if magic != _MAGIC or length > _MOST_HEADER or size > self._most:
            raise BadMessage("what its process sent is not an answer of kcheck's own code")
        try:
            fields = json.loads(self._exactly(length, deadline))
            sizes = fields["sizes"]
            if not all(type(each) is int and each >= 0 for each in sizes) or sum(sizes) != size:
                raise BadMessage("the sizes in its answer are wrong")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadMessage("its answer cannot be read") from error
        return Received(fields, tuple(self._exactly(each, deadline) for each in sizes))

    def give(self, value: object) -> None:
        """Send a value to a candidate's process, which trusts the grader."""
        self.send({"kind": "pickle"}, [pickle.dumps(value, pickle.HIGHEST_PROTOCOL)])

    def take(self) -> Any:
        """The value that the grader gave."""
        return pickle.loads(self.receive().blobs[0])

    def fileno(self) -> int:
        """The file descriptor of this end."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection, of which other processes may have copies."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        found = bytearray(count)
        view, have = memoryview(found), 0
        while have < count:
            if deadline is not None and time.monotonic() >= deadline:
                raise Late
            self._socket.settimeout(None if deadline is None and self._watch is None else _STEP)
            try:
                read = self._socket.recv_into(view[have:])
            except TimeoutError:
                if self._watch is not None:
                    self._watch()
                continue
            except OSError as error:
                raise OtherEndClosed from error
            if read == 0:
                raise OtherEndClosed
            have += read
        return bytes(found)
