"""The types of a kernel's parameters in C++, from the compiler itself: a variable that describes them is compiled
with the kernel, read from the PTX, and removed from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from kcheck.dataclass import dataclass

ASKING = "kcheck_parameters"
QUESTION = "kcheck_signature.h"
"""The name of the added text in errors of the compiler."""
_CODES = {
    "bool": ("bool",),
    "int8": ("char", "signed char", "char1", "char2", "char3", "char4"),
    "uint8": ("unsigned char", "uchar1", "uchar2", "uchar3", "uchar4"),
    "int16": ("short", "short1", "short2", "short3", "short4"),
    "uint16": ("unsigned short", "ushort1", "ushort2", "ushort3", "ushort4"),
    "int32": ("int", "int1", "int2", "int3", "int4"),
    "uint32": ("unsigned int", "uint1", "uint2", "uint3", "uint4"),
    "int64": ("long", "long long", "long1", "long2", "longlong1", "longlong2"),
    "uint64": ("unsigned long", "unsigned long long", "ulong1", "ulong2", "ulonglong1", "ulonglong2"),
    "float16": ("__half", "__half2"),
    "bfloat16": ("__nv_bfloat16", "__nv_bfloat162"),
    "float32": ("float", "float1", "float2", "float3", "float4"),
    "float64": ("double", "double1", "double2"),
    "float8_e4m3fn": ("__nv_fp8_e4m3",),
    "float8_e5m2": ("__nv_fp8_e5m2",),
}
"""The C++ types of the elements of each dtype; a vector type has several elements."""
_SCALARS = frozenset(
    {"bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long"}
    | {"long long", "unsigned long", "unsigned long long", "float", "double", "__half", "__nv_bfloat16"}
    | {"__nv_fp8_e4m3", "__nv_fp8_e5m2"}
)
_POINTER, _CLASS, _ABSENT = 256, 512, 1024

Members: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]
"""Members of structs among the parameters: the number of the parameter from 0, and the members, such as
``inner.sizes[1]``."""


@dataclass(frozen=True, slots=True)
class CppMember:
    """A member of a struct: its offset, and its type as in :class:`CppParameter`. ``exists``: there is one."""

    offset: int
    size: int
    is_pointer: bool
    is_class: bool
    element: str
    exists: bool = True


@dataclass(frozen=True, slots=True)
class CppParameter:
    """The type of a parameter. ``element``: a dtype, or empty for any other type. ``size`` is in bytes.

    Attributes:
        members: the requested ones, by name.
        alignment: in bytes.
    """

    size: int
    is_pointer: bool
    is_class: bool
    element: str
    alignment: int = 1
    members: tuple[tuple[str, CppMember], ...] = ()


def question(expression: str, members: Members) -> str:
    """C++ code of a variable that describes the parameters: their number, then the code, the size and the
    alignment of each, then the code, the size and the offset of each member."""
    lines = [
        "",
        f'#line 1 "{QUESTION}"',
        "struct __half; struct __half2; struct __nv_bfloat16; struct __nv_bfloat162;",
        "struct __nv_fp8_e4m3; struct __nv_fp8_e5m2;",
        "namespace kcheck_signature {",
        "template <class T> struct element { enum { code = 0, scalar = 0 }; };",
    ]
    for code, names in enumerate(_CODES.values(), 1):
        for name in names:
            scalar = int(name in _SCALARS)
            lines.append(f"template <> struct element<{name}> {{ enum {{ code = {code}, scalar = {scalar} }}; }};")
    lines += [
        "template <class T> struct element<T*> : element<unsigned long> {};",  # an array of addresses
        "template <class T> struct element<const T> : element<T> {};",
        "template <class T> struct element<volatile T> : element<T> {};",
        "template <class T> struct element<const volatile T> : element<T> {};",
        "template <class T, bool E = __is_enum(T)> struct form",
        f"{{ enum {{ code = element<T>::scalar ? element<T>::code : {_CLASS} }}; }};",
        "template <class T> struct form<T, true> { enum { code = element<__underlying_type(T)>::code }; };",
        f"template <class T> struct form<T*, false> {{ enum {{ code = {_POINTER} + element<T>::code }}; }};",
        "template <class T> struct form<T* __restrict__, false>",
        f"{{ enum {{ code = {_POINTER} + element<T>::code }}; }};",
        *_asking_members(members),
        "template <class F> struct list;",
        "template <class... A> struct list<void (*)(A...)> {",
        "int count, codes[sizeof...(A) + 1], sizes[sizeof...(A) + 1], alignments[sizeof...(A) + 1];",
        f"int members[{3 * _count(members) + 1}];",
        "constexpr list() : count(sizeof...(A) + 1), codes{form<A>::code..., 0}, sizes{(int)sizeof(A)..., 0},",
        f"alignments{{(int)alignof(A)..., 0}}, members{{{_told_members(members)}0}} {{}}",
        "};",
        "}",
        f'extern "C" __device__ const kcheck_signature::list<decltype(&{expression})> {ASKING}{{}};',
        "",
    ]
    return "\n".join(lines)


def _count(members: Members) -> int:
    return sum(len(names) for _, names in members)


def _asking_members(members: Members) -> Iterator[str]:
    """A function for each member, which has an overload for structs without it."""
    if not members:
        return
    yield "template <class T> struct bare { using type = T; };"
    yield "template <class T> struct bare<T&> { using type = T; };"
    yield "template <class T> struct bare<const T&> { using type = T; };"
    yield "template <int I, class... A> struct nth { using type = void; };"
    yield "template <int I, class A, class... B> struct nth<I, A, B...> : nth<I - 1, B...> {};"
    yield "template <class A, class... B> struct nth<0, A, B...> { using type = A; };"
    number = 0
    for _, names in members:
        for name in names:
            found = f"(((P*)0)->{name})"
            kind = f"typename bare<decltype({found})>::type"
            yield (
                f"template <class P> constexpr auto ask{number}(int what, int) -> decltype((void){found}, 0) {{"
                f" return what == 0 ? (int)form<{kind}>::code : what == 1 ? (int)sizeof({kind})"
                f" : (int)__builtin_offsetof(P, {name}); }}"
            )
            yield (
                f"template <class P> constexpr int ask{number}(int what, ...)"
                f" {{ return what == 0 ? {_ABSENT} : 0; }}"
            )
            number += 1


def _told_members(members: Members) -> str:
    """The initializers of the members."""
    asked = [index for index, names in members for _ in names]
    return "".join(
        f"ask{number}<typename nth<{index}, A...>::type>({what}, 0), "
        for number, index in enumerate(asked)
        for what in range(3)
    )


_ANSWER = re.compile(rf"^[^\n]*\b{ASKING}\[(\d+)\](?:\s*=\s*\{{([^}}]*)\}})?;\n", re.MULTILINE)


def answer(ptx: str, members: Members) -> tuple[str, tuple[CppParameter, ...]]:
    """The PTX without the variable, and the parameters that the variable describes."""
    found = _ANSWER.search(ptx)
    assert found is not None, ptx
    given = bytes(int(number) for number in (found[2] or "").split(",") if number.strip())
    content = given.ljust(int(found[1]), b"\0")
    words = [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]
    count = words[0] - 1
    codes, sizes, alignments = (words[1 + part * (count + 1) :][:count] for part in range(3))
    rest = words[1 + 3 * (count + 1) :]
    told: dict[int, list[tuple[str, CppMember]]] = {}
    for number, (index, name) in enumerate((index, name) for index, names in members for name in names):
        code, size, offset = rest[3 * number : 3 * number + 3]
        told.setdefault(index, []).append((name, CppMember(offset, size, *_type(code), not code & _ABSENT)))
    parameters = tuple(
        CppParameter(size, *_type(code), alignment, tuple(told.get(index, ())))
        for index, (code, size, alignment) in enumerate(zip(codes, sizes, alignments, strict=True))
    )
    return ptx[: found.start()] + ptx[found.end() :], parameters


def dtype_of(cpp: str) -> str:
    """The dtype of a type of C++, such as ``unsigned int``, or of its elements; empty if it has none."""
    plain = cpp.removeprefix("std::").removesuffix("_t")
    if cpp.endswith("_t") and plain in _CODES:
        return plain
    if cpp in ("unsigned", "signed", "half", "nv_bfloat16"):
        cpp = {"unsigned": "unsigned int", "signed": "int"}.get(cpp, f"__{cpp}")
    if cpp.endswith((" long int", " short int")) or cpp in ("long int", "short int"):
        cpp = cpp.removesuffix(" int")
    return next((dtype for dtype, names in _CODES.items() if cpp in names), "")


def _type(code: int) -> tuple[bool, bool, str]:
    """Whether it is a pointer, whether it is a class, and the dtype of its elements."""
    return bool(code & _POINTER), bool(code & _CLASS), ["", *_CODES][code & 0xFF]
