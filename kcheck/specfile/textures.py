"""``{texture: x, ...}`` and ``{surface: y, ...}`` among the arguments of a launch."""

from __future__ import annotations

from kcheck.model import TextureArg
from kcheck.specfile.arrays import ndim_of
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlEntry, YamlMap, YamlNode, YamlScalar

KEYS = ("texture", "surface")
_OF_TEXTURES = ("filter", "address", "normalized", "read", "memory")
_OF_BOTH = ("layered", "channels")
_REPEATED = ("wrap", "mirror")


def read_texture(reader: Reader, node: YamlMap, key: str, arrays: dict[str, YamlEntry]) -> TextureArg | None:
    """A texture or surface argument; None, after a fault, if it is invalid.

    Args:
        key: ``texture`` or ``surface``.
        arrays: the declarations of inputs and outputs.
    """
    is_surface = key == "surface"
    known = _OF_BOTH if is_surface else (*_OF_TEXTURES, *_OF_BOTH)
    for name, entry in node.entries.items():
        if name != key and name not in known:
            reader.fault(entry.span, f"unknown key {name!r} beside {key!r}", f"its keys are {', '.join(known)}")
            return None
    array = reader.reference(node.entries[key].value, ("input", "output"), "array", key)
    if array is None:
        return None
    axes = _modes(node)
    x, y, z = (axes * 3)[:3] if len(axes) == 1 else (*axes, "clamp", "clamp")[:3]
    made = TextureArg(
        array,
        node.span,
        is_surface,
        _word(node, "memory") != "linear",
        str(_word(node, "filter") or "point"),
        (x, y, z),
        _word(node, "normalized") is True,
        _word(node, "read") == "normalized",
        _word(node, "layered") is True,
        reader.integer(reader.get(node, "channels")) or 1,
    )
    return made if _fits(reader, node, made, ndim_of(arrays[array]), len(axes)) else None


def _word(node: YamlMap, key: str) -> object:
    entry = node.entries.get(key)
    return entry.value.value if entry is not None and isinstance(entry.value, YamlScalar) else None


def _modes(node: YamlMap) -> tuple[str, ...]:
    entry = node.entries.get("address")
    if entry is None:
        return ("clamp",)
    items: tuple[YamlNode, ...] = getattr(entry.value, "items", (entry.value,))
    return tuple(str(item.value) for item in items if isinstance(item, YamlScalar))


def _fits(reader: Reader, node: YamlMap, made: TextureArg, ndim: int | None, modes: int) -> bool:
    """Whether the keys are compatible with each other and with the array; reports a fault if not."""

    def wrong(key: str, what: str, fix: str) -> bool:
        reader.fault(node.entries[key].span, what, fix)
        return False

    name = "surface" if made.is_surface else "texture"
    if not made.normalized and any(mode in _REPEATED for mode in made.address):
        return wrong("address", "wrap and mirror need normalized coordinates", "add normalized: true")
    if not made.in_array and made.layered:
        return wrong("memory", "linear memory has no layers", "remove 'memory' or 'layered'")
    if ndim is None:
        return True
    axes = ndim - made.layered - (made.channels > 1)
    most = 2 if made.layered or not made.in_array else 3
    if not 1 <= axes <= most:
        what = f"{made.array!r} has {ndim} axes, which leaves {axes} for the {name}; it has 1 to {most}"
        return wrong(name, what, "fix the shape, 'channels' or 'layered'")
    if modes > axes:
        return wrong("address", f"'address' has {modes} modes for {axes} axes", "write one for each axis, x first")
    if not made.in_array and axes == 1 and (made.normalized or made.filter == "linear"):
        what = (
            "a texture of linear memory with one axis is indexed by integers, so nothing is filtered or normalized"
        )
        return wrong("memory", what, "remove 'memory', or 'filter' and 'normalized'")
    return True
