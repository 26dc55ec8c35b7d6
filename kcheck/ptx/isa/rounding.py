"""Directed rounding, for any operation: ``.rz``, ``.rm``, ``.rp``.

The operation is LLVM's constrained intrinsic with dynamic rounding, in an outlined function that sets the
rounding mode of the thread and restores it (about 30 ns). ``fma`` and ``add`` of f32, which every ``exp`` uses, go
through f64 instead: the product is exact, TwoSum (Knuth) gives the sum and its error, and a step of one ulp
follows if the error requires it.
"""

from __future__ import annotations

from kcheck.ptx.ir.builder import Builder, Value, mangle, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.signature import Signature

_LLVM_MODE = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}
"""The argument of llvm.set.rounding, as C's FLT_ROUNDS numbers them."""

_CONVERSIONS = frozenset({"sitofp", "uitofp"})


def directed(b: Builder, operation: str, mode: str, *arguments: Value, result: str | None = None) -> Value:
    """An operation under a rounding mode other than round-to-nearest.

    Args:
        operation: ``fadd``, ``fsub``, ``fmul``, ``fdiv``, ``sqrt``, ``fma``, ``sitofp``, ``uitofp``.
        mode: ``rz``, ``rm`` or ``rp``.
        result: element type of the result, for conversions.
    """
    values = b.match(*arguments)
    lanes, source = values[0].lanes, values[0].type
    element = result or source
    mangled = mangle(element, lanes)
    suffix = f"{mangled}.{mangle(source, lanes)}" if operation in _CONVERSIONS else mangled
    name = f"@kcheck.{operation}.{mode}.{suffix}"
    parameters = {f"a{i}": vector_type(source, lanes) for i in range(len(values))}
    function = Signature(name, vector_type(element, lanes), parameters)
    if name not in b.definitions:
        f = FunctionBuilder(
            function, "noinline", declarations=b.declarations, definitions=b.definitions, attributes="strictfp"
        )
        f.set_rounding(_LLVM_MODE[mode])
        result_there = f.constrained(operation, suffix, element, [f.argument(a) for a in parameters])
        f.set_rounding(_LLVM_MODE["rn"])
        f.ret(result_there)
        b.definitions[name] = f.definition()
    made = call(b, function, **dict(zip(parameters, values, strict=True)))
    if operation not in ("sitofp", "uitofp"):
        return made
    # Without AVX-512, LLVM converts unsigned integers by a subtraction, which gives -0 for 0 if it rounds down.
    return b.select(b.compare("eq", values[0], 0), b.const(element, 0.0), made)


def narrowed(b: Builder, x: Value, mode: str, result: str) -> Value:
    """A float as a narrower one, in any mode: rounded to nearest, then one step back where that went past ``x``.

    Args:
        mode: ``rz``, ``rm`` or ``rp``; others round to nearest.
        result: element type of the result, ``half`` or ``float``.
    """
    near = b.cast("fptrunc", x, result)
    if mode not in ("rz", "rm", "rp"):
        return near
    back, bits = b.cast("fpext", near, x.type), b.as_integer(near)
    if mode == "rz":
        past, step = b.compare("ogt", b.intrinsic("fabs", back), b.intrinsic("fabs", x)), b.const(bits.type, -1)
    else:  # the magnitude, which the bits below the sign are, grows away from zero
        past, up = b.compare("ogt" if mode == "rm" else "olt", back, x), 1 if mode == "rm" else -1
        step = b.select(b.compare("slt", bits, 0), b.const(bits.type, up), b.const(bits.type, -up))
    return b.bitcast(b.select(past, b.add(bits, step), bits), result)


def two_sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y as a rounded sum and its exact error (Knuth, TAOCP 2, 4.2.2)."""
    total = b.op("fadd", x, y)
    part = b.op("fsub", total, x)
    error = b.op("fadd", b.op("fsub", x, b.op("fsub", total, part)), b.op("fsub", y, part))
    return total, error


def odd_single(b: Builder, x: Value) -> Value:
    """f64 to f32, rounded to odd, so that a second rounding gives the same as a single one."""
    near = b.cast("fptrunc", x, "float")
    back = b.cast("fpext", near, "double")
    bits = b.as_integer(near)
    inexact = b.land(b.compare("one", back, x), b.compare("eq", b.land(bits, 1), 0))
    outward = b.compare("olt", b.intrinsic("fabs", back), b.intrinsic("fabs", x))
    stepped = b.add(bits, b.select(outward, b.const("i32", 1), b.const("i32", -1)))
    return b.bitcast(b.select(inexact, stepped, bits), "float")


def next_below(b: Builder, x: Value) -> Value:
    """The next f32 towards minus infinity; x is not NaN and not minus infinity."""
    bits = b.as_integer(x)
    negative = b.compare("slt", bits, 0)
    step = b.select(negative, b.const("i32", 1), b.const("i32", -1))
    magnitude = b.land(bits, 0x7FFFFFFF)
    moved = b.select(b.compare("eq", magnitude, 0), b.const("i32", 0x80000001), b.add(bits, step))
    return b.bitcast(moved, "float")


def fma_f32(b: Builder, mode: str, x: Value, y: Value, z: Value) -> Value:
    """``fma`` of f32, correctly rounded. ``mode``: ``rz``, ``rm`` or ``rp``.

    The product of two f32 is exact in f64 and cannot leave its range; the sum's rounding error is known, so a
    comparison gives the f32 below the exact value: rm is that value, rp mirrors it, rz is either, by the sign.
    """
    if mode == "rp":
        return b.fneg(fma_f32(b, "rm", b.fneg(x), y, b.fneg(z)))
    wx, wy, wz = (b.cast("fpext", v, "double") for v in b.match(x, y, z))
    exact = b.op("fmul", wx, wy)
    total, error = two_sum(b, exact, wz)
    if mode == "rz":
        sign = b.select(b.compare("olt", total, 0.0), b.const("double", -1.0), b.const("double", 1.0))
        total, error = b.op("fmul", total, sign), b.op("fmul", error, sign)
    near = b.cast("fptrunc", total, "float")
    back = b.cast("fpext", near, "double")
    above = b.compare("ogt", back, total)
    tie = b.land(b.compare("oeq", back, total), b.compare("olt", error, 0.0))
    finite = b.compare("one", total, float("inf"))
    lower = b.land(b.lor(above, tie), finite)
    result = b.select(lower, next_below(b, near), near)
    if mode == "rz":
        signed = b.op("fmul", result, b.cast("fptrunc", sign, "float"))
        # An exact zero keeps the sign that fma gives it; nothing else rounds to zero from above.
        return b.select(b.compare("oeq", total, 0.0), _zero(b, exact, wz, "rz"), signed)
    return b.select(b.compare("oeq", total, 0.0), _zero(b, exact, wz, mode), result)


def _zero(b: Builder, product: Value, addend: Value, mode: str) -> Value:
    """A sum of two numbers that is exactly zero: minus zero if both are, or under rm if the signs differ."""
    p, a = b.as_integer(product), b.as_integer(addend)
    both = b.op("or" if mode == "rm" else "and", p, a)
    return b.select(b.compare("slt", both, 0), b.const("float", -0.0), b.const("float", 0.0))


def rounded(b: Builder, operation: str, mode: str, *arguments: Value) -> Value:
    """``fadd``, ``fsub``, ``fmul``, ``fdiv``, ``sqrt`` or ``fma`` in any mode; ``""`` is round-to-nearest."""
    if mode in ("", "rn"):
        if operation == "sqrt":
            # LLVM must not see that a NaN is selected for a negative source: it would treat it as the root's NaN.
            return b.intrinsic("arithmetic.fence", b.intrinsic("sqrt", *arguments))
        if operation == "fma":
            return b.intrinsic("fma", *arguments)
        return b.op(operation, *arguments)
    if arguments[0].type == "float":
        if operation == "fma":
            return fma_f32(b, mode, *arguments)
        if operation == "fadd":
            return fma_f32(b, mode, arguments[0], b.const("float", 1.0), arguments[1])
    return directed(b, operation, mode, *arguments)
