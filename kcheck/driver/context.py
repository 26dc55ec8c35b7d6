"""Calls about contexts: ``cuCtx*``, ``cuDevicePrimaryCtx*``, ``cuProfiler*``.

There is one context, the device's primary context. Each thread has its own context stack.
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.driver.call import Call, Table, put_u32, put_u64
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
        "cuDevicePrimaryCtxRetain": Call("pi", retain),
        "cuDevicePrimaryCtxRelease": Call("i", release),
        "cuDevicePrimaryCtxReset": Call("i", lambda device: reset()),
        "cuDevicePrimaryCtxGetState": Call("ipp", state),
        "cuCtxGetCurrent": Call("p", get_current),
        "cuCtxSetCurrent": Call("z", set_current),
        "cuCtxPushCurrent": Call("z", push),
        "cuCtxPopCurrent": Call("p", pop),
        "cuCtxGetDevice": Call("p", get_device),
        "cuCtxGetDevice_v2": Call("pz", get_device_of),
        "cuCtxGetId": Call("zp", lambda context, out: put_u64(out, 1)),
        "cuCtxSynchronize": Call("", ctx_synchronize),
        "cuCtxGetApiVersion": Call("zp", lambda context, out: put_u32(out, _API_VERSION)),
        "cuCtxGetFlags": Call("p", lambda out: put_u32(out, 0)),
        "cuCtxGetStreamPriorityRange": Call("pp", priorities),
        "cuCtxGetLimit": Call("pi", get_limit),
        "cuCtxSetLimit": Call("iz", set_limit),
        "cuCtxEnablePeerAccess": Call("zu", lambda context, flags: Result.PEER_ACCESS_UNSUPPORTED),
        "cuProfilerStart": Call("", lambda: None),
        "cuProfilerStop": Call("", lambda: None),
    }
