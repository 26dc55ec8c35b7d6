"""Calls about contexts: ``cuCtx*``, ``cuDevicePrimaryCtx*``, ``cuProfiler*``.

There is one context, the device's primary context. Each thread has its own context stack.
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.driver.call import DriverCall, Table, put_u32, put_u64
from kcheck.driver.machine import PRIMARY_CONTEXT, Machine
from kcheck.driver.result import DriverFault, Result

_STACK_SIZE, _PRINTF_FIFO_SIZE, _MALLOC_HEAP_SIZE = 0, 1, 2  # CUlimit
_API_VERSION = 3020


def calls(machine: Machine, reset: Callable[[], None], synchronize: Callable[[], None]) -> Table:
    """The calls of this family.

    Args:
        reset: destroys every stream, event, library and allocation.
        synchronize: waits for the callbacks of every stream.
    """
    limits = {_STACK_SIZE: 1024, _PRINTF_FIFO_SIZE: 1 << 20, _MALLOC_HEAP_SIZE: 8 << 20}
    retained = [0]

    def check(context: int) -> None:
        if context != PRIMARY_CONTEXT:
            raise DriverFault(Result.INVALID_CONTEXT)

    def retain(out: int, device: int) -> None:
        if device:
            raise DriverFault(Result.INVALID_DEVICE)
        retained[0] += 1
        put_u64(out, PRIMARY_CONTEXT)

    def release(device: int) -> None:
        if not retained[0]:
            raise DriverFault(Result.INVALID_CONTEXT)
        retained[0] -= 1
        if not retained[0]:
            reset()

    def state(device: int, flags: int, active: int) -> None:
        put_u32(flags, 0)
        put_u32(active, int(retained[0] > 0))

    def get_current(out: int) -> None:
        stack = machine.context_stack()
        put_u64(out, stack[-1] if stack else 0)

    def set_current(context: int) -> None:
        stack = machine.context_stack()
        if context:
            check(context)
            stack[-1:] = [context]
        elif stack:
            stack.pop()

    def push(context: int) -> None:
        check(context)
        machine.context_stack().append(context)

    def pop(out: int) -> None:
        machine.require_context()
        put_u64(out, machine.context_stack().pop())

    def get_device(out: int) -> None:
        machine.require_context()
        put_u32(out, 0)

    def get_device_of(out: int, context: int) -> None:
        check(context or PRIMARY_CONTEXT)
        put_u32(out, 0)

    def priorities(least: int, greatest: int) -> None:
        put_u32(least, 0)
        put_u32(greatest, -5)

    def get_limit(out: int, limit: int) -> None:
        if limit not in limits:
            raise DriverFault(Result.INVALID_VALUE)
        put_u64(out, limits[limit])

    def set_limit(limit: int, value: int) -> None:
        if limit not in limits:
            raise DriverFault(Result.INVALID_VALUE)
        limits[limit] = value

    def ctx_synchronize() -> None:
        machine.require_context()
        synchronize()

    return {
        "cuDevicePrimaryCtxRetain": DriverCall("pi", retain),
        "cuDevicePrimaryCtxRelease": DriverCall("i", release),
        "cuDevicePrimaryCtxReset": DriverCall("i", lambda device: reset()),
        "cuDevicePrimaryCtxGetState": DriverCall("ipp", state),
        "cuCtxGetCurrent": DriverCall("p", get_current),
        "cuCtxSetCurrent": DriverCall("z", set_current),
        "cuCtxPushCurrent": DriverCall("z", push),
        "cuCtxPopCurrent": DriverCall("p", pop),
        "cuCtxGetDevice": DriverCall("p", get_device),
        "cuCtxGetDevice_v2": DriverCall("pz", get_device_of),
        "cuCtxGetId": DriverCall("zp", lambda context, out: put_u64(out, 1)),
        "cuCtxSynchronize": DriverCall("", ctx_synchronize),
        "cuCtxGetApiVersion": DriverCall("zp", lambda context, out: put_u32(out, _API_VERSION)),
        "cuCtxGetFlags": DriverCall("p", lambda out: put_u32(out, 0)),
        "cuCtxGetStreamPriorityRange": DriverCall("pp", priorities),
        "cuCtxGetLimit": DriverCall("pi", get_limit),
        "cuCtxSetLimit": DriverCall("iz", set_limit),
        "cuCtxEnablePeerAccess": DriverCall("zu", lambda context, flags: Result.PEER_ACCESS_UNSUPPORTED),
        "cuProfilerStart": DriverCall("", lambda: None),
        "cuProfilerStop": DriverCall("", lambda: None),
    }
