"""A CUDA test of GPUVerify as a kernel and a spec for ``kcheck prove``.

A test is one file: first the expected result (``//pass``, or ``//xfail:`` and a code), then the options of the
launch, then expected lines of the output. GPUVerify's conditions become plain code (``gpuverify/gpuverify.h``).
Its arrays are unbounded, so that kcheck's are large. Lines keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from keyword import iskeyword
from pathlib import Path

from conformance.cuda_text import kernels
from kcheck.dataclass import dataclass
from kcheck.device.kinds.host_code import blanked, items

HEADERS = Path(__file__).with_name("gpuverify")
ELEMENTS = 1 << 21
"""Of each array: more than the kernels index with their sizes."""
MOST = (1 << 31) - 1
"""The greatest value of an integer argument. Sizes of kcheck are not negative."""
_MOST_THREADS = 1024
_SCALARS = {
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "long long": "int64",
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "unsigned": "uint32",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "uint": "uint32",
    "size_t": "uint64",
}
_UNUSED = "kcheck_unused"
"""An output that each kernel gets, because a spec has one."""
_SYNCHRONIZE = (
    "namespace cooperative_groups { template <class G> __device__ void synchronize(const G &g) { g.sync(); } }"
)
"""A function of earlier versions of CUDA."""
_OF_TWO = re.compile(
    r"__(?:other_\w+|distinct_\w+|uniform_\w+|(?:no_)?(?:read|write)\w*|ptr_\w+|return_val\w*)\s*\("
)
"""What relates two threads, or asks about the accesses so far."""


class NotApplicable(Exception):
    """A test that has no meaning for a kernel that runs."""


@dataclass(frozen=True, slots=True)
class GpuverifyTest:
    """A test of GPUVerify.

    Attributes:
        name: its folder.
        expected: ``pass``, ``fail``, or the code of an error of GPUVerify's own compiler.
        told: what its output has, as regular expressions.
        block, grid: along each axis.
        is_cut: whether the block had more threads than CUDA allows, and is smaller here.
        defines: macros.
        lockstep: the lanes that are assumed to execute in lockstep; 0: none.
    """

    name: str
    expected: str
    told: tuple[str, ...]
    block: tuple[int, ...]
    grid: tuple[int, ...]
    is_cut: bool
    defines: Mapping[str, str]
    lockstep: int
    text: str


def read(path: Path, root: Path) -> GpuverifyTest:
    """Read a test; ``root``: the folder of all tests."""
    text = path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
    head = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        head.append(line[2:].strip())
    word, _, code = head[0].partition(":")
    expected = "pass" if word.lower() == "pass" else "fail" if code == "NOT_ALL_VERIFIED" else code
    options = head[1] if len(head) > 1 else ""
    block, grid = (_sizes(options, name) for name in ("blockDim", "gridDim"))
    allowed = _allowed(block)
    return GpuverifyTest(
        path.parent.relative_to(root).as_posix(),
        expected,
        tuple(line for line in head[2:] if line),
        allowed,
        grid,
        allowed != block,
        {name: value or "1" for name, value in re.findall(r"-D(\w+)(?:=(\w+))?", options)},
        int((re.findall(r"--warp-sync=(\d+)", options) or ["0"])[0]),
        text,
    )


def _sizes(options: str, name: str) -> tuple[int, ...]:
    found = re.search(rf"--{name}=\[?([\d,]+)", options)
    return tuple(int(n) for n in found[1].split(",")) if found else (1,)


def _allowed(block: tuple[int, ...]) -> tuple[int, ...]:
    """A block of at most as many threads as CUDA allows: the longest sides are halved."""
    sides = list(block)
    while True:
        threads = 1
        for side in sides:
            threads *= side
        if threads <= _MOST_THREADS:
            return tuple(sides)
        longest = max(range(len(sides)), key=lambda n: sides[n])
        sides[longest] //= 2


def translated(test: GpuverifyTest) -> str:
    """The text to compile.

    Raises:
        NotApplicable: the test is not about what a kernel does.
    """
    _check(test)
    text = re.sub(r'^[ \t]*#[ \t]*include[ \t]*[<"]cuda\.h[>"]', "", test.text, flags=re.MULTILINE)
    text = re.sub(r"\bclass(?=\s+\w+\s*\{)", "struct", text)
    text, axioms = _without_axioms(text)
    plain = blanked(text)
    changed = list(text)
    for found in re.finditer(r"\b__shared__\s[^;{}()=]*?(\w+)\s*(?:\[[^\]]*\]\s*)*;", plain):
        changed[found.end() - 1] += f" gpuverify_keep(&{found[1]});"
    for item in items(text):
        body = plain[item.start : item.end]
        if not re.search(r"\b__global__\b", body) or "{" not in body:
            continue
        for found in re.finditer(r"\b__requires(?=\s*\()", body):
            changed[item.start + found.end() - 1] += "_of_kernel"
        begin = item.start + body.index("{")
        end = plain.rindex(")", item.start, begin)
        start = plain.rindex("(", item.start, end)
        changed[end] = f"{', ' if plain[start + 1 : end].strip() else ''}int *{_UNUSED})"
        changed[begin] += "".join(f" __requires_of_kernel({axiom});" for axiom in axioms)
    text = "".join(changed) + "".join(_bodies(plain))
    first = '#include "gpuverify.h"'
    if "cooperative_groups" in plain:
        first = f"#include <cooperative_groups.h>\n{first}\n{_SYNCHRONIZE}\n#line 2"
    _, _, rest = text.partition("\n")
    return f"{first}\n{rest}"


def _check(test: GpuverifyTest) -> None:
    plain = blanked(test.text)
    if test.expected not in ("pass", "fail"):
        raise NotApplicable(f"GPUVerify rejects it before the analysis ({test.expected})")
    if any("invariant" in line for line in test.told):
        raise NotApplicable("the error that is expected is in a loop invariant, not in the kernel")
    if re.search(r"\btexture\s*<", plain):
        raise NotApplicable("texture references, which CUDA 12 does not have")
    for condition in _conditions(plain, "__assert|__requires|__assume"):
        if _OF_TWO.search(condition):
            told = " ".join(condition.split())
            raise NotApplicable(f"a condition on two threads or on the accesses so far: `{told}`")


def _conditions(plain: str, names: str) -> Iterator[str]:
    """The arguments of calls."""
    for found in re.finditer(rf"\b(?:{names})\s*\(", plain):
        yield plain[found.end() : _closing(plain, found.end())]


def _closing(plain: str, start: int) -> int:
    """The place of the parenthesis that closes the one before ``start``."""
    depth = 1
    for at in range(start, len(plain)):
        depth += (plain[at] == "(") - (plain[at] == ")")
        if not depth:
            return at
    return len(plain)


def _without_axioms(text: str) -> tuple[str, list[str]]:
    """The text without ``__axiom(...);`` outside functions, and the conditions."""
    axioms = []
    while found := re.search(r"^[ \t]*__axiom\s*\(", text, re.MULTILINE):
        end = _closing(text, found.end())
        axioms.append(text[found.end() : end])
        text = text[: found.start()] + text[end + 1 :].lstrip(" \t").removeprefix(";")
    return text, axioms


def _bodies(plain: str) -> Iterator[str]:
    """Bodies for device functions that are only declared: they return anything."""
    for found in re.finditer(
        r"^[ \t]*__device__\s+([\w ]+?)\s*\b(\w+)\s*\(([^(){};]*)\)\s*;", plain, re.MULTILINE
    ):
        kind, name, params = found.groups()
        if re.search(rf"\b__device__\b[^;{{}}()]*\b{name}\s*\([^(){{}};]*\)\s*\{{", plain):
            continue
        value = "" if kind == "void" else f" return gpuverify_anything<{kind}>();"
        yield f"\n__device__ {kind} {name}({params}) {{{value} }}"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a test: its name and the spec."""

    name: str
    spec: str


def specs(test: GpuverifyTest, file: str, most: int = MOST) -> list[Kernel]:
    """The specs of the kernels of a test.

    Args:
        file: the name of the translated file.
        most: the greatest value of an integer argument.

    Raises:
        NotApplicable: an argument cannot be passed from the host.
    """
    plain = blanked(test.text)
    return [Kernel(kernel.name, _spec(test, plain, kernel.name, file, most)) for kernel in kernels(test.text)]


def _spec(test: GpuverifyTest, plain: str, name: str, file: str, most: int) -> str:
    arguments = _Arguments(plain, most)
    found = re.search(rf"\b{re.escape(name)}\s*\(([^)]*)\)", plain)
    assert found is not None
    given = [arguments.passed(part) for part in found[1].split(",") if part.strip() not in ("", "void")]
    lines = ["kcheck: 1", f"op: {re.sub(r'[^a-z0-9]+', '_', test.name.lower())}_{name.lower()}"]
    for key, rows in (("dims", arguments.dims), ("params", arguments.params), ("inputs", arguments.arrays)):
        if rows:
            lines += [f"{key}:", *(f"  {row}: {value}" for row, value in rows.items())]
    if arguments.arrays:
        lines.append(f"mutates: [{', '.join(arguments.arrays)}]")
    lines.append(f"outputs: {{{_UNUSED}: {{shape: [1], dtype: int32}}}}")
    given.append(_UNUSED)
    defines = ", ".join(f"{key}: {value}" for key, value in test.defines.items())
    cooperative = ", cooperative: true" if "grid_group" in plain else ""
    lines += [
        f'kernel: "{file}:{name}"',
        f"compile: {{include: [include], defines: {{{defines}}}}}",
        f"launch: {{args: [{', '.join(given)}], grid: {list(test.grid)}, block: {list(test.block)}{cooperative}}}",
        "reference: none",
        "sanitize: {unwritten: off, initcheck: off, nondeterministic: off, mutated: off}",
    ]
    return "\n".join(lines) + "\n"


class _Arguments:
    """The arguments of a kernel, as the spec passes them."""

    def __init__(self, plain: str, most: int) -> None:
        self.plain = plain
        self.most = most
        self.dims: dict[str, str] = {}
        self.params: dict[str, str] = {}
        self.arrays: dict[str, str] = {}
        self._structs = dict(_structs(plain))

    def passed(self, part: str) -> str:
        """The argument for a parameter as it is declared."""
        words = re.sub(r"\b(?:const|volatile|struct|__restrict(?:__)?)\b", " ", part)
        kind, name = self._declared(words)
        if not name:
            raise NotApplicable(f"a parameter that is not understood: `{' '.join(part.split())}`")
        return self._argument(kind, name)

    def _declared(self, words: str) -> tuple[str, str]:
        found = re.fullmatch(r"\s*([\w ]+?)\s*((?:\*\s*)*)(\w+)\s*(\[\d*\])?\s*", words)
        if found is None:
            return "", ""
        kind, stars, name, index = found.groups()
        return " ".join(kind.split()) + "*" * (stars.count("*") + (index is not None)), name

    def _argument(self, kind: str, name: str) -> str:
        own = f"{name}_" if iskeyword(name) else name
        if kind.endswith("*"):
            inner = kind[:-1]
            vector = re.fullmatch(r"(u?)(char|short|int|float|double)[1-4]", inner)
            if vector is not None:
                inner = f"{'unsigned ' * bool(vector[1])}{vector[2]}"
            dtype = "uint64" if inner.endswith("*") else _dtype(inner) or "uint8"
            self.arrays[own] = f"{{shape: [{ELEMENTS}], dtype: {dtype}}}"
            return own
        dtype = _dtype(kind)
        if dtype.startswith("float"):
            self.params[own] = f"{{dtype: {dtype}, values: [1.5]}}"
            return own
        if dtype:
            self.dims[own] = f"0..{min(self.most, (1 << 8 * _SIZES[dtype] - 1) - 1)}"
            return own
        if kind not in self._structs:
            raise NotApplicable(f"the host cannot pass a parameter of type `{kind}`")
        return f"{{struct: {self._fields(self._structs[kind], name)}}}"

    def _fields(self, members: list[tuple[str, str, int]], prefix: str) -> str:
        found = []
        for kind, name, count in members:
            own = f"{prefix}_{name}"
            if count:
                found.append(f"{name}: [{', '.join(self._argument(kind, f'{own}_{n}') for n in range(count))}]")
            else:
                found.append(f"{name}: {self._argument(kind, own)}")
        return "{" + ", ".join(found) + "}"


def _dtype(kind: str) -> str:
    """The dtype of a type of C; empty if it has none."""
    whole = re.sub(r"(?<=long|hort) int$", "", kind)
    return _SCALARS.get(whole, "")


_SIZES = {
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
}


def _structs(plain: str) -> Iterator[tuple[str, list[tuple[str, str, int]]]]:
    """The structures by name: (type, name, number of elements or 0) of each member, those of the base first.

    A structure inside another one is a type with its own name.
    """
    found: dict[str, list[tuple[str, str, int]]] = {}
    number = 0
    text = _without_bodies(plain)
    pattern = re.compile(r"\b(?:struct|class)\s*(\w*)\s*(?::\s*(?:public\s+)?(\w+)\s*)?\{([^{}]*)\}")
    while matched := pattern.search(text):
        name, base, body = matched.groups()
        if not name:
            number += 1
            after = re.match(r"\s*(\w+)\s*;", text[matched.end() :])
            is_typedef = re.search(r"\btypedef\s*$", text[: matched.start()])
            name = after[1] if after and is_typedef else f"unnamed{number}"
        found[name] = [*found.get(base or "", []), *_members(body)]
        text = text[: matched.start()] + f"{name} " + text[matched.end() :]
    yield from found.items()


def _without_bodies(plain: str) -> str:
    """The text without the bodies of functions."""
    while found := re.search(r"\)\s*\{[^{}]*\}", plain):
        plain = f"{plain[: found.start()]});{plain[found.end() :]}"
    return plain


def _members(body: str) -> Iterator[tuple[str, str, int]]:
    for declaration in body.split(";"):
        words = " ".join(re.sub(r"\b(?:public|private)\s*:", " ", declaration).split())
        first = re.match(r"([\w ]+?)\s*((?:\*\s*)*)\b(\w+)\s*(\[(\d+)\])?(?=\s*(?:,|$))", words)
        if first is None:
            continue
        kind = first[1]
        for one in words[first.start(2) :].split(","):
            member = re.fullmatch(r"\s*((?:\*\s*)*)(\w+)\s*(?:\[(\d+)\])?\s*", one)
            if member is not None:
                yield kind + "*" * member[1].count("*"), member[2], int(member[3] or 0)
