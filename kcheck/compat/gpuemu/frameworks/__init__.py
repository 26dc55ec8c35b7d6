"""gpuemu's context managers for arrays of a framework. They take arrays of any framework, by DLPack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kcheck.compat.gpuemu.client import Client
from kcheck.compat.gpuemu.ops import ClientError
from kcheck.compat.gpuemu.validation import Context, ValidationError, validate_op

__all__ = ["ValidationError", "validate_arrays"]


@contextmanager
def validate_arrays(
    client: Client,
    op_name: str,
    inputs: Mapping[str, object],
    check_backward: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> Iterator[Context]:
    """Validate the output that the block sets, as ``ctx["output"] = op(x)``.

    Args:
        inputs: arrays of a framework by name; they are copied when the block begins.
        check_backward: is refused: use ``gradients:`` in a spec.
        atol, rtol: a fixed tolerance.
        kwargs: passed to a registered reference.

    Raises:
        ValidationError: the output is wrong.
        ClientError: the op is not known, the block set no output, or gradients are to be checked.
    """
    if check_backward:
        raise ClientError(f"{op_name}: gradients are not checked here; write a spec with `gradients:`")
    with validate_op(client, op_name, inputs, atol=atol, rtol=rtol, **kwargs) as context:
        yield context
