"""Texture and surface objects, and the table in which kernels look up their handles."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from kcheck.cpu.memory import Memory
from kcheck.ptx.abi import Texture

_MOST_TEXEL_BYTES = 16
_GENERATION = 32  # the first bit of a handle above its index in the table
_TAG = 0x54 << 56


_NO_TEXTURES = (Texture * 1)()


class Textures:
    """The objects of one device. Handles are not reused, so a handle of a destroyed object is never valid again.

    Args:
        memory: the memory that the objects refer to.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._objects: list[Texture | None] = []
        self._spans: list[tuple[int, int]] = []
        self._created = 0
        self._lock = threading.Lock()

    def create(self, texture: Texture, size: int) -> int:
        """A new object; returns its handle.

        Args:
            texture: all fields except the handle.
            size: bytes of its memory, from its base.
        """
        with self._lock:
            place = next((n for n, known in enumerate(self._objects) if known is None), len(self._objects))
            if place == len(self._objects):
                self._objects.append(None)
                self._spans.append((0, 0))
            self._created += 1
            texture.handle = _TAG | (self._created & 0xFFFFFF) << _GENERATION | place
            self._objects[place] = texture
            self._spans[place] = (texture.base, size)
            return int(texture.handle)

    def find(self, handle: int) -> Texture | None:
        """The object with a handle; None if there is none."""
        place = handle & 0xFFFFFFFF
        found = self._objects[place] if place < len(self._objects) else None
        return found if found is not None and found.handle == handle else None

    def destroy(self, handle: int) -> bool:
        """Destroy an object; False if no object has the handle."""
        with self._lock:
            if self.find(handle) is None:
                return False
            self._objects[handle & 0xFFFFFFFF] = None
            return True

    def told(self, handle: int) -> str:
        """The text in findings for a handle that a kernel must not use."""
        found = self.find(handle)
        if found is not None:
            what = "surface" if found.is_surface else "texture"
            if self._memory.find(*self._spans[handle & 0xFFFFFFFF]) is None:
                return f"{what} object {handle:#x}, whose memory was freed"
            return f"{handle:#x}, which is a {what} object"
        if handle >> 56 == _TAG >> 56 and 0 < (handle >> _GENERATION & 0xFFFFFF) <= self._created:
            return f"{handle:#x}, an object that was destroyed"
        return f"{handle:#x}, which is not an object"

    def table(self) -> tuple[ctypes.Array[Texture], int]:
        """The current table, which does not change, and its length. Objects without memory are not in it."""
        with self._lock:
            if not self._objects:
                return _NO_TEXTURES, 0
            made = (Texture * len(self._objects))()
            for place, texture in enumerate(self._objects):
                if texture is not None and self._memory.find(*self._spans[place]) is not None:
                    made[place] = texture
            return made, len(self._objects)

    @property
    def state(self) -> tuple[int, list[tuple[bytes, int]]]:
        """How many were created, and the objects with the sizes of their memory, for a process that shares it."""
        with self._lock:
            pairs = zip(self._objects, self._spans, strict=True)
            return self._created, [(bytes(one) if one is not None else b"", size) for one, (_, size) in pairs]

    def adopt(self, created: int, objects: Sequence[tuple[bytes, int]]) -> None:
        """Take over the objects of another process, as :attr:`state` says.

        Raises:
            ValueError: an object is larger than its memory.
        """
        made = [Texture.from_buffer_copy(content) if content else None for content, _ in objects]
        for texture, (_, size) in zip(made, objects, strict=True):
            if texture is None:
                continue
            width, height, depth = texture.extent
            end = width * texture.texel_bytes + max(height - 1, 0) * texture.row_pitch
            if end + max(depth - 1, 0) * texture.slice_pitch > size or texture.texel_bytes > _MOST_TEXEL_BYTES:
                raise ValueError("a texture")
        with self._lock:
            self._created, self._objects = created, made
            self._spans = [
                (0 if texture is None else texture.base, size)
                for texture, (_, size) in zip(made, objects, strict=True)
            ]

    def reset(self) -> None:
        """Destroy everything."""
        with self._lock:
            self._objects.clear()
            self._spans.clear()
