"""Applies the options of ``kcheck try`` to a sketch: ``--dims``, ``--args``, ``--grid`` and ``--block``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kcheck.dataclass import dataclass
from kcheck.draft.sketch import Argument, Sketch
from kcheck.errors import UserError

_NAME = r"[A-Za-z_]\w*"
_ARRAY = re.compile(rf"({_NAME})\[(.*)\](?::(\w+))?")
_VALUE = re.compile(rf"({_NAME})=([^:]+)(?::(\w+))?")
_PLAIN = re.compile(rf"({_NAME})(?::(\w+))?")


@dataclass(frozen=True, slots=True)
class Words:
    """The options as they were typed; empty if they were not given."""

    dims: str = ""
    args: str = ""
    grid: str = ""
    block: str = ""


def apply(sketch: Sketch, words: Words) -> Sketch:
    """The sketch with the user's options instead of what the kernel's source shows.

    Raises:
        UserError: an option cannot be parsed, or ``--args`` has a different number of arguments than the kernel.
    """
    domains = dict(_domain(word) for word in _split(words.dims))
    arguments = sketch.arguments
    renamed: dict[str, str] = {}
    if words.args:
        arguments = _arguments(sketch, words.args, domains)
        for drawn, given in zip(sketch.arguments, arguments, strict=True):
            renamed |= {
                old: new
                for old, new in zip(drawn.shape, given.shape, strict=False)
                if re.fullmatch(_NAME, old) and old not in renamed
            }
            if drawn.kind == "dim" and given.kind == "dim":
                renamed[drawn.dim] = given.dim
        arguments = tuple(replace(a, values=_rename(a.values, renamed)) for a in arguments)
    if not any(argument.stores for argument in arguments):
        # No array is known to be written, so any of them may be.
        arguments = tuple(replace(a, stores=a.kind == "array") for a in arguments)
    used = [name for a in arguments for size in (*a.shape, a.dim) for name in re.findall(_NAME, size)]
    dims = dict.fromkeys([*domains, *(name for name in used if name not in _FUNCTIONS)])
    grid = tuple(_split(words.grid)) or tuple(_rename(size, renamed) for size in sketch.grid)
    block = tuple(_threads(word) for word in _split(words.block)) or sketch.block
    if words.block and not words.grid and block != sketch.block:
        grid = tuple(_with_block(size, place, sketch.block, block) for place, size in enumerate(grid))
    return replace(
        sketch,
        arguments=arguments,
        dims=tuple(dims),
        domains=domains,
        grid=grid,
        block=block,
        block_from="--block" if words.block else sketch.block_from,
        guesses=tuple(
            g for g in sketch.guesses if not (words.grid and "grid" in g) and not (words.args and ":" in g)
        ),
    )


_FUNCTIONS = ("min", "max", "abs", "sqrt", "log2", "ceildiv", "next_pow2")


def _split(text: str) -> list[str]:
    """The parts of a text between commas, except commas inside brackets and parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _domain(word: str) -> tuple[str, str]:
    name, separator, sizes = (part.strip() for part in word.partition("="))
    if not separator or not re.fullmatch(_NAME, name) or not sizes:
        raise UserError(f"--dims: {word!r} is not a dim; write M=1..64, M=128 or M=[1,2,5]")
    if re.fullmatch(r"\d+\.\.\d+|\[.*\]", sizes):
        return name, sizes
    return name, f"[{sizes}]" if sizes.isdigit() else f"{{expr: {sizes}}}"


def _arguments(sketch: Sketch, text: str, domains: Mapping[str, str]) -> tuple[Argument, ...]:
    words = _split(text)
    if len(words) != len(sketch.arguments):
        names = ", ".join(argument.name for argument in sketch.arguments)
        raise UserError(
            f"--args has {len(words)} argument{'' if len(words) == 1 else 's'}, but {sketch.name} takes "
            f"{len(sketch.arguments)}: {names}"
        )
    sizes = set(domains) | {name for word in words for name in _names_in_shape(word)}
    return tuple(_argument(word, drawn, sizes) for word, drawn in zip(words, sketch.arguments, strict=True))


def _names_in_shape(word: str) -> Iterator[str]:
    array = _ARRAY.fullmatch(word)
    yield from re.findall(_NAME, array[2]) if array else ()


def _argument(word: str, drawn: Argument, sizes: set[str]) -> Argument:
    array = _ARRAY.fullmatch(word)
    if array is not None:
        is_known = drawn.kind == "array"
        return Argument(
            array[1],
            "array",
            tuple(_split(array[2])),
            array[3] or drawn.dtype,
            drawn.loads if is_known else True,
            drawn.stores if is_known else True,
            values=drawn.values,
        )
    value = _VALUE.fullmatch(word)
    if value is not None:
        is_whole = re.fullmatch(r"[-+]?\d+", value[2]) is not None
        dtype = value[3] or ("bool" if value[2] in ("true", "false") else "int64" if is_whole else "float32")
        return Argument(value[1], "scalar", dtype=dtype, values=f"[{value[2]}]")
    plain = _PLAIN.fullmatch(word)
    if plain is not None and plain[1] in sizes:
        return Argument(plain[1], "dim", dtype=plain[2] or "", dim=plain[1])
    raise UserError(
        f"--args: {word!r} is neither an array, a scalar nor a dim of --dims; write x[M,N], x[M,N]:float16, "
        "alpha=0.5:float32 or N"
    )


def _rename(text: str, renamed: Mapping[str, str]) -> str:
    def new(match: re.Match[str]) -> str:
        name = renamed.get(match[0], match[0])
        return name if re.fullmatch(r"\w+", name) else f"({name})"

    return re.sub(_NAME, new, text)


def _threads(word: str) -> int:
    if not word.isdigit() or not 0 < int(word) <= 1024:
        raise UserError(f"--block: {word!r} is not a number of threads; write 256 or 16,16")
    return int(word)


def _with_block(size: str, place: int, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """The expression for the blocks along an axis, with a different block size."""
    if place >= len(before) or place >= len(after):
        return size
    return re.sub(rf", {before[place]}\)$", f", {after[place]})", size)
