"""Snapshots as a document and blobs: one blob per array, named by its content.

A blob has the elements in C order, little-endian, with one element along an axis of stride 0. Its name is their
BLAKE2b digest, which is checked on every read.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from kcheck.model import DTYPES, ArraySnapshot, Case, Snapshot
from kcheck.model.layouts import Spread
from kcheck.store.documents import DocumentRefused, dumps, loads

DIGEST_BYTES = 16
LARGEST = 64 << 20
"""The most bytes of elements in one snapshot; for a larger case, only its recipe is stored."""


def digest(content: bytes) -> bytes:
    """The name of a blob with this content."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def bits(outputs: Mapping[str, Any]) -> dict[str, str]:
    """A digest of the bits of each output, in hexadecimal; NaNs with different payloads are different bits."""
    import numpy as np  # lazy: a list of failures needs no arrays

    return {name: digest(np.ascontiguousarray(array).tobytes()).hex() for name, array in outputs.items()}


def pack(snapshot: Snapshot) -> tuple[str, dict[bytes, bytes]]:
    """The document of a snapshot, and its blobs by digest. Equal snapshots have equal results."""
    blobs: dict[bytes, bytes] = {}
    arrays = []
    for array in snapshot.arrays:
        name = None
        if array.values is not None:
            content = array.values[_once(array.strides)].tobytes()
            name = digest(content)
            blobs[name] = content
        arrays.append(
            {
                "name": array.name,
                "role": array.role,
                "dtype": array.dtype,
                "shape": list(array.shape),
                "strides": list(array.strides),
                "offset": array.offset,
                "size": array.size,
                "guard": array.guard,
                "values": None if name is None else name.hex(),
                **({} if array.far is None else {"far": _far_fields(array.far)}),
            }
        )
    document = {
        "case": json.loads(dumps(snapshot.case)),
        "arrays": arrays,
        "params": {name: [value.dtype.name, value.tobytes().hex()] for name, value in snapshot.params.items()},
        "aliases": dict(snapshot.aliases),
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False), blobs


def unpack(document: str, blob: Callable[[bytes], bytes]) -> Snapshot:
    """The snapshot of a document.

    Args:
        blob: returns the content for a digest.

    Raises:
        DocumentRefused: :func:`pack` did not make it, or a blob does not match its name.
    """
    import numpy as np

    try:
        found = json.loads(document)
        arrays = tuple(_array(each, blob) for each in found["arrays"])
        params = {
            str(name): np.frombuffer(bytes.fromhex(held), DTYPES[dtype].numpy)[0]
            for name, (dtype, held) in found["params"].items()
        }
        aliases = {str(output): str(name) for output, name in found["aliases"].items()}
        if any(name not in {array.name for array in arrays} for name in aliases.values()):
            raise DocumentRefused("an alias for an unknown array")
        return Snapshot(checked(loads(json.dumps(found["case"]), Case)), arrays, params, aliases)
    except DocumentRefused:
        raise
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise DocumentRefused(f"{type(error).__name__}: {error}") from error


def checked(case: Case) -> Case:
    """A case that was read from a file, if its fields have the declared types.

    Raises:
        DocumentRefused: the types do not match.
    """
    rows: list[tuple[str, object, type]] = [("spec", case.spec, str), ("op", case.op, str)]
    rows += [("label", case.label, str), ("seed", case.seed, int)]
    rows += [(f"dim {name}", size, int) for name, size in case.dims.items()]
    rows += [(f"dtype {name}", dtype, str) for name, dtype in case.dtypes.items()]
    rows += [(f"layout {name}", layout, str) for name, layout in case.layouts.items()]
    for what, value, kind in rows:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DocumentRefused(f"{what} is {value!r}")
    if not 0 <= case.seed < 2**64:
        raise DocumentRefused(f"seed is {case.seed}")
    return case


def compress(content: bytes) -> bytes:
    """Compress at the fastest level: most failing data is noise, which does not compress."""
    return zlib.compress(content, 1)


def decompress(content: bytes, size: int) -> bytes:
    """The uncompressed content, if it has ``size`` bytes.

    Raises:
        DocumentRefused: it has a different size, or is damaged. At most ``size + 1`` bytes are unpacked.
    """
    try:
        made = zlib.decompressobj()
        whole = made.decompress(content, size + 1)
    except zlib.error as error:
        raise DocumentRefused(str(error)) from error
    if len(whole) != size:
        raise DocumentRefused(f"{len(whole)} bytes instead of {size}")
    return whole


def _once(strides: tuple[int, ...]) -> tuple[slice, ...]:
    """An index that selects one element along each axis of stride 0, and all along other axes."""
    return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)


def _array(document: Mapping[str, Any], blob: Callable[[bytes], bytes]) -> ArraySnapshot:
    import numpy as np

    shape, strides = (tuple(_whole(part) for part in document[key]) for key in ("shape", "strides"))
    dtype = DTYPES[document["dtype"]]
    if len(shape) != len(strides) or any(extent < 0 for extent in shape) or document["role"] not in _ROLES:
        raise DocumentRefused(f"shape {shape} with strides {strides}")
    values = None
    if document["values"] is not None:
        name = bytes.fromhex(document["values"])
        content = blob(name)
        if digest(content) != name:
            raise DocumentRefused(f"the elements of {document['name']} differ from the stored ones")
        held = tuple(
            min(extent, 1) if stride == 0 else extent for extent, stride in zip(shape, strides, strict=True)
        )
        if math.prod(held) * dtype.itemsize != len(content):
            raise DocumentRefused(f"{len(content)} bytes for {document['name']} of shape {held}")
        values = np.broadcast_to(np.frombuffer(content, dtype.numpy).reshape(held), shape)
    elif document["role"] == "input":
        raise DocumentRefused(f"no values for {document['name']}")
    return ArraySnapshot(
        str(document["name"]),
        document["role"],
        dtype.name,
        shape,
        strides,
        _whole(document["offset"]),
        _whole(document["size"]),
        _whole(document["guard"]),
        values,
        Spread(*map(_whole, document["far"])) if "far" in document else None,
    )


def _far_fields(far: Spread) -> list[int]:
    return [far.rows, far.lead, far.run, far.packed, far.apart]


_ROLES = ("input", "output")


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise DocumentRefused(f"expected a whole number, found {value!r}")
    return value
