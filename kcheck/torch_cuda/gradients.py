"""Functions of the program that PyTorch calls while it computes gradients: ``backward()`` and hooks."""

from __future__ import annotations

import functools
import sys
from typing import Any

from kcheck.torch_cuda.operators import TorchCall, within
from kcheck.torch_cuda.storages import Storages, storage_of


def patch_gradients(torch: Any, storages: Storages, mode: Any, call: TorchCall) -> None:
    """Run these functions with ``cuda`` as host memory, too, and with their gradients on the device."""
    _engine(torch, mode)
    _backward(torch, storages)
    _hooks(torch, storages)
    _saved_tensors(torch, storages, mode, call)


def _engine(torch: Any, mode: Any) -> None:
    """The mode is on while PyTorch computes gradients: ``tensor.backward()`` is a call that turns it off."""
    plain = torch.autograd.graph._engine_run_backward

    @functools.wraps(plain)
    def run(*arguments: Any, **options: Any) -> Any:
        with within(torch, mode):
            return plain(*arguments, **options)

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("torch.") and (
            vars(module).get("_engine_run_backward") is plain
        ):
            module._engine_run_backward = run  # type: ignore[attr-defined]


def _backward(torch: Any, storages: Storages) -> None:
    """If ``forward()`` of a user's autograd function saved tensors on the device, ``backward()`` gets its
    gradients there."""
    kind = torch.autograd.function.BackwardCFunction
    plain = kind.apply

    @functools.wraps(plain)
    def apply(self: Any, *gradients: Any) -> Any:
        if any(tensor is not None and storages.is_on_device(tensor) for tensor in self.saved_tensors):
            for gradient in gradients:
                if gradient is not None:
                    storages.place(gradient)
        return plain(self, *gradients)

    kind.apply = apply


def _hooks(torch: Any, storages: Storages) -> None:
    """The hook of a tensor on the device gets its gradient there."""
    plain = torch.Tensor.register_hook

    @functools.wraps(plain)
    def register_hook(self: Any, hook: Any) -> Any:
        def on_device(gradient: Any) -> Any:
            storages.place(gradient)
            return hook(gradient)

        return plain(self, on_device if storages.is_on_device(self) else hook)

    torch.Tensor.register_hook = register_hook


def _saved_tensors(torch: Any, storages: Storages, mode: Any, call: TorchCall) -> None:
    """The hooks that pack saved tensors, as those of ``torch.utils.checkpoint``, get them on the device, too."""
    kind = torch.autograd.graph.saved_tensors_hooks
    plain = kind.__init__

    @functools.wraps(plain)
    def with_hooks(self: Any, pack_hook: Any, unpack_hook: Any) -> None:
        def pack(tensor: Any) -> Any:
            given = {id(storage_of(operand)) for operand in call.operands}
            # The result of the current call: the mode places it only after the call.
            if id(storage_of(tensor)) not in given and any(map(storages.is_on_device, call.operands)):
                storages.place(tensor)
            with within(torch, mode):
                return pack_hook(tensor)

        plain(self, pack, unpack_hook)

    kind.__init__ = with_hooks
