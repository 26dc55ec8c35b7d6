"""Calls about streams and events.

Every call is complete when it returns, so only host callbacks can be pending in a stream. They run on a thread of
the driver, as with a GPU, and later calls in their stream wait for them.
"""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.driver.call import DriverCall, Table, put_f32, put_u32, put_u64
from kcheck.driver.machine import LEGACY_STREAM, PER_THREAD_STREAM, PRIMARY_CONTEXT, Handles, Machine
from kcheck.driver.result import DriverFault, Result

_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(slots=True)
class Stream:
    """``pending``: callbacks that have not ended; ``flags`` and ``priority`` as created."""

    flags: int
    priority: int
    pending: int = 0


@dataclass(slots=True)
class StreamEvent:
    """``recorded``: the time when it was last recorded; None if it was not."""

    flags: int
    recorded: float | None = None


@dataclass
class Streams:
    """Every stream and event, and the thread that runs callbacks."""

    streams: Handles[Stream] = field(default_factory=Handles)
    events: Handles[StreamEvent] = field(default_factory=Handles)
    default: Stream = field(default_factory=lambda: Stream(0, 0))
    _done: threading.Condition = field(default_factory=threading.Condition)
    _queue: queue.SimpleQueue[tuple[Stream, Callable[[], None]]] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    def stream(self, handle: int) -> Stream:
        """Handles 0, 1 and 2 are the default stream. Raises DriverFault(INVALID_HANDLE) for an unknown handle."""
        return self.default if handle in (0, LEGACY_STREAM, PER_THREAD_STREAM) else self.streams[handle]

    def wait(self, handle: int) -> None:
        """Wait for the callbacks of a stream; the default stream waits for all. Within a callback, return at
        once."""
        stream = self.stream(handle)
        if self._thread is None or threading.current_thread() is self._thread:
            return  # there has been no callback yet, or a callback waits
        waited = [stream] if stream is not self.default else [stream, *self.streams]
        if any(each.pending for each in waited):
            with self._done:
                self._done.wait_for(lambda: not any(each.pending for each in waited))

    def call(self, stream: Stream, function: Callable[[], None]) -> None:
        """Run a host function on the driver's thread."""
        with self._done:
            stream.pending += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="kcheck-callbacks", daemon=True)
                self._thread.start()
        self._queue.put((stream, function))

    def _serve(self) -> None:
        while True:
            stream, function = self._queue.get()
            try:
                function()
            finally:
                with self._done:
                    stream.pending -= 1
                    self._done.notify_all()

    def reset(self) -> None:
        """Destroy every stream and event."""
        self.streams.clear()
        self.events.clear()


def calls(machine: Machine, streams: Streams) -> Table:
    """The calls of this family."""

    def create(out: int, flags: int, priority: int = 0) -> None:
        machine.require_context()
        put_u64(out, streams.streams.add(Stream(flags, priority)))

    def destroy(handle: int) -> None:
        streams.wait(handle)
        streams.streams.pop(handle)

    def query(handle: int) -> Result:
        return Result.NOT_READY if streams.stream(handle).pending else Result.SUCCESS

    def wait_event(handle: int, event: int, flags: int) -> None:
        streams.stream(handle)
        streams.events[event]

    def tell(value: Callable[[Stream], int], put: Callable[[int, int], None]) -> Callable[[int, int], None]:
        return lambda handle, out: put(out, value(streams.stream(handle)))

    def context_v2(handle: int, out: int, green: int) -> None:
        streams.stream(handle)
        put_u64(out, PRIMARY_CONTEXT)
        put_u64(green, 0)

    def add_callback(handle: int, function: int, data: int, flags: int) -> None:
        callback = _STREAM_CALLBACK(function)
        streams.call(streams.stream(handle), lambda: callback(handle, 0, data))

    def host_function(handle: int, function: int, data: int) -> None:
        callback = _HOST_FUNCTION(function)
        streams.call(streams.stream(handle), lambda: callback(data))

    def event_create(out: int, flags: int) -> None:
        machine.require_context()
        put_u64(out, streams.events.add(StreamEvent(flags)))

    def event_record(event: int, handle: int, flags: int = 0) -> None:
        streams.wait(handle)
        streams.events[event].recorded = machine.clock()

    def event_known(event: int) -> None:
        streams.events[event]

    def elapsed(out: int, first: int, last: int) -> None:
        start, end = streams.events[first], streams.events[last]
        if (start.flags | end.flags) & _DISABLE_TIMING or start.recorded is None or end.recorded is None:
            raise DriverFault(Result.INVALID_HANDLE)
        put_f32(out, (end.recorded - start.recorded) * 1e3)

    def event_destroy(event: int) -> None:
        streams.events.pop(event)

    return {
        "cuStreamCreate": DriverCall("pu", create),
        "cuStreamCreateWithPriority": DriverCall("pui", create),
        "cuStreamDestroy": DriverCall("z", destroy),
        "cuStreamSynchronize": DriverCall("z", streams.wait),
        "cuStreamQuery": DriverCall("z", query),
        "cuStreamWaitEvent": DriverCall("zzu", wait_event),
        "cuStreamGetCtx": DriverCall("zp", tell(lambda stream: PRIMARY_CONTEXT, put_u64)),
        "cuStreamGetCtx_v2": DriverCall("zpp", context_v2),
        "cuStreamGetDevice": DriverCall("zp", tell(lambda stream: 0, put_u32)),
        "cuStreamGetFlags": DriverCall("zp", tell(lambda stream: stream.flags, put_u32)),
        "cuStreamGetPriority": DriverCall("zp", tell(lambda stream: stream.priority, put_u32)),
        "cuStreamGetId": DriverCall("zp", lambda handle, out: put_u64(out, handle)),
        "cuStreamIsCapturing": DriverCall("zp", tell(lambda stream: 0, put_u32)),
        "cuStreamAddCallback": DriverCall("zppu", add_callback),
        "cuLaunchHostFunc": DriverCall("zpp", host_function),
        "cuEventCreate": DriverCall("pu", event_create),
        "cuEventDestroy": DriverCall("z", event_destroy),
        "cuEventRecord": DriverCall("zz", event_record),
        "cuEventRecordWithFlags": DriverCall("zzu", event_record),
        "cuEventQuery": DriverCall("z", event_known),
        "cuEventSynchronize": DriverCall("z", event_known),
        "cuEventElapsedTime": DriverCall("pzz", elapsed),
    }
