"""gpuemu's context managers for arrays of a framework. They take arrays of any framework, by DLPack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from kcheck.compat.gpuemu.client import Client
from kcheck.compat.gpuemu.ops import ClientError
from kcheck.compat.gpuemu.validation import Context, ValidationError, validated_block
from kcheck.frameworks import recorded_derivatives

__all__ = ["ValidationError", "validate_arrays"]


class Tape:
    """TensorFlow's tape while it records. The block may enter it, but does not have to."""

    def __init__(self, tape: Any) -> None:
        self.tape = tape

    def __enter__(self) -> Any:
        return self.tape

    def __exit__(self, *error: object) -> None:
        """Do nothing: the tape records until the block of the validation ends."""


@contextmanager
def validate_arrays(
    client: Client,
    op_name: str,
    inputs: Mapping[str, object],
    check_backward: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    check_gradient: bool = False,
    **kwargs: Any,
) -> Iterator[Context]:
    """Validate the output that the block sets, as ``ctx["output"] = op(x)``.

    Args:
        inputs: arrays of a framework by name; they are copied when the block begins.
        check_backward: also compare the derivatives of ``sum(output * c)``, with random c, with those of the
            reference (docs/frameworks.md): with respect to the torch tensors that require a gradient, or to
            TensorFlow's floating-point tensors and variables. ``ctx["tape"]`` is TensorFlow's tape.
        check_gradient: another name for it.
        atol, rtol: a fixed tolerance of the output.
        kwargs: passed to a registered reference.

    Raises:
        ValidationError: the output or a derivative is wrong.
        ClientError: the op is not known, the block set no output, or no input can be differentiated.
    """
    if not (check_backward or check_gradient):
        with validated_block(client, op_name, inputs, None, atol=atol, rtol=rtol, **kwargs) as context:
            yield context
        return
    by = {name: value for name, value in inputs.items() if _is_differentiable(value)}
    if not by:
        what = "no input is a torch tensor that requires a gradient, or a floating-point tensor of TensorFlow"
        fix = "for JAX, write a spec with `gradients:`; for torch, pass x.requires_grad_()"
        raise ClientError(f"{op_name}: {what}; {fix}")
    with ExitStack() as recording:
        tape = _recording(by, recording)

        def derive(output: object, weights: Mapping[str, Any]) -> Mapping[str, object]:
            return recorded_derivatives(dict.fromkeys(weights, output), by, weights, tape)

        with validated_block(client, op_name, inputs, derive, atol=atol, rtol=rtol, **kwargs) as context:
            if tape is not None:
                context["tape"] = Tape(tape)
            yield context
            recording.close()


def _framework(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _is_differentiable(value: Any) -> bool:
    if _framework(value) == "torch":
        return bool(value.requires_grad)
    return _framework(value) == "tensorflow" and bool(value.dtype.is_floating)


def _recording(by: Mapping[str, Any], block: ExitStack) -> Any:
    """TensorFlow's tape, which records until the block ends; None for torch, whose tensors have their graph."""
    if not any(_framework(value) == "tensorflow" for value in by.values()):
        return None
    import tensorflow  # type: ignore[import-not-found,import-untyped,unused-ignore]  # an input is its tensor

    tape = block.enter_context(tensorflow.GradientTape(persistent=True))
    for value in by.values():
        tape.watch(value)
    return tape
