"""Intercepts each call of PyTorch: which device it requests, on which device its results are, and queries about
devices.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kcheck.torch_cuda.operators import TorchCall
from kcheck.torch_cuda.products import host_products
from kcheck.torch_cuda.storages import Storages, storage_of, tensors_in

Answer = Callable[..., Any]


def host_cuda_mode(torch: Any, storages: Storages, call: TorchCall) -> Any:
    """A TorchFunctionMode that runs calls for ``cuda`` on the CPU, with the results that a GPU gives: a copy
    between devices is a copy, and a result is on the device of its operands. ``call`` says what a call is for.
    """
    from torch.overrides import TorchFunctionMode

    answers = _answers(torch, storages, call)
    products = host_products(torch)
    constructors = torch.utils._device._device_constructors()
    to = torch.Tensor.to

    class HostCuda(TorchFunctionMode):  # type: ignore[misc]
        """See :func:`host_cuda_mode`."""

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            options = dict(kwargs or {})
            if func in answers:
                return answers[func](*args, **options)
            wanted = _wanted(torch, func is to, args, options)
            if wanted is None and func in constructors and options.get("device") is None:
                wanted = _default(torch)
            if options.get("pin_memory"):
                options["pin_memory"] = False
            if hasattr(options.get("generator"), "host"):
                options["generator"] = options["generator"].host
            if wanted == "cuda":
                args, options = _on_host(torch, func is to, args, options)
                if func in constructors:
                    options["device"] = "cpu"
            operands = list(tensors_in(torch, (args, options)))
            compute = products.get(func, func) if "out_dtype" in options else func
            with call.of(makes_device_tensor=wanted == "cuda", operands=operands):
                results = compute(*args, **options)
            with call.of(is_copy_to_host=True):
                return _placed(torch, storages, wanted, operands, results)

    return HostCuda()


def _is_cuda(torch: Any, value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "cuda"


def _device(torch: Any, value: Any, is_plain: bool) -> Any:
    """The device that an argument names, or None. With ``is_plain``, a string or an index may name one."""
    if isinstance(value, torch.device):
        return value
    if is_plain and isinstance(value, str):
        return torch.device(value)
    if is_plain and isinstance(value, int) and not isinstance(value, bool):
        return torch.device("cuda", value)
    return None


def _wanted(torch: Any, is_to: bool, args: Any, options: Mapping[str, Any]) -> str | None:
    """The type of the device that a call requests: ``cuda``, ``cpu``, another one, or None if it requests none."""
    named = [_device(torch, options.get("device"), True), *(_device(torch, a, False) for a in args)]
    if is_to and len(args) > 1:
        named.append(_device(torch, args[1], True))
    other = options.get("other") if "other" in options else (args[1] if is_to and len(args) > 1 else None)
    if is_to and isinstance(other, torch.Tensor):
        named.append(other.device)
    return next((device.type for device in named if device is not None), None)


def _on_host(torch: Any, is_to: bool, args: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments with the CPU instead of ``cuda``."""
    host = torch.device("cpu")
    changed = [host if _is_cuda(torch, value) else value for value in args]
    if is_to and len(changed) > 1 and _device(torch, changed[1], True) is not None:
        changed[1] = host
    given = {key: host if _is_cuda(torch, value) else value for key, value in options.items()}
    if _device(torch, given.get("device"), True) is not None:
        given["device"] = host
    return tuple(changed), given


def _default(torch: Any) -> str | None:
    """The type of the default device; None if the program has not set one."""
    chosen = torch.utils._device.CURRENT_DEVICE
    return None if chosen is None else torch.device(chosen).type


def _placed(torch: Any, storages: Storages, wanted: str | None, operands: list[Any], results: Any) -> Any:
    """The results of a call, each placed on the device where it would be with a GPU."""
    if isinstance(results, torch.Tensor):
        given = {id(storage_of(operand)) for operand in operands}
        is_shared = id(storage_of(results)) in given
        on_device = storages.is_on_device(results)
        if wanted == "cuda":
            results = results.clone() if is_shared and not on_device else results
            storages.place(results)
        elif wanted == "cpu" and on_device:
            return results.clone()
        elif wanted is None and (on_device or (not is_shared and any(map(storages.is_on_device, operands)))):
            storages.place(results)
        return results
    if isinstance(results, (tuple, list)) and any(True for _ in tensors_in(torch, results)):
        parts = [_placed(torch, storages, wanted, operands, part) for part in results]
        if isinstance(results, list):
            return parts
        is_named = hasattr(results, "_fields") or hasattr(results, "n_sequence_fields")
        return results if is_named else type(results)(parts)
    return results


def _answers(torch: Any, storages: Storages, call: TorchCall) -> dict[Any, Answer]:
    """Replacements for the methods of tensors that concern devices."""
    tensor = torch.Tensor
    cuda = torch.device("cuda", 0)
    on_device = storages.is_on_device
    host_device = tensor.device.__get__

    def to_cuda(self: Any, *_: Any, **__: Any) -> Any:
        if not on_device(self):
            self = self.clone()
            storages.place(self)
        return self

    def to_cpu(self: Any, *_: Any, **__: Any) -> Any:
        with call.of(is_copy_to_host=True):
            return self.clone() if on_device(self) else self

    return {
        tensor.device.__get__: lambda self: cuda if on_device(self) else host_device(self),
        tensor.is_cuda.__get__: on_device,
        tensor.is_cpu.__get__: lambda self: not on_device(self),
        tensor.get_device: lambda self: 0 if on_device(self) else -1,
        tensor.cuda: to_cuda,
        tensor.cpu: to_cpu,
        tensor.pin_memory: lambda self, *_, **__: self.clone(),
        tensor.is_pinned: lambda self, *_, **__: False,
    }


def in_every_thread(mode: Any) -> None:
    """Enter a mode in this thread, and in the threads that start from now on: PyTorch's modes are per thread."""
    mode.__enter__()
    start = threading.Thread.start

    def start_with_mode(self: threading.Thread) -> None:
        run = self.run

        def run_with_mode() -> None:
            del self.run
            with mode:
                run()

        self.run = run_with_mode  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = start_with_mode  # type: ignore[method-assign]
