"""``sust.p``: formatted stores to surfaces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kcheck.ptx.abi import Checks
from tests.isa.machines import WIDTHS
from tests.isa.test_textures import LANES, kernel, run
from tests.isa.texture_machine import SURFACE, Device

_FORMATTED = ["u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4"]


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("kind", _FORMATTED)
def test_a_formatted_store_converts_to_the_surface(device: Device, kind: str, channels: int) -> None:
    """x counts texels. Integers are clamped, floats cut; components that a texel does not have are ignored."""
    rng = np.random.default_rng(9)
    words = rng.integers(-(2**31), 2**31 - 1, (LANES, 4))
    words[::3] = rng.integers(-300, 300, (LANES // 3, 4))
    sources = words.astype(np.int32)
    if kind[0] == "f":
        sources = (rng.standard_normal((LANES, 4)) * 10.0 ** rng.integers(-9, 6, (LANES, 4))).astype(np.float32)
    content = np.zeros((6, 16, channels), kind)
    array = device.array(content, SURFACE)
    where = np.zeros((LANES, 3), np.int32)
    where[:, 0], where[:, 1] = np.arange(LANES) % 16, np.arange(LANES) // 16
    text = (
        ".reg .b64 %more; mul.wide.u32 %more, %t, 16; add.u64 %more, %out, %more;"
        " ld.global.v4.b32 {%d0, %d1, %d2, %d3}, [%more];"
        " sust.p.2d.v4.b32.trap [%object, {%r0, %r1}], {%d0, %d1, %d2, %d3};"
    )
    at, target = device.upload(where), device.upload(sources)
    assert device.launch(kernel(text, loads="s32"), device.surface(array), at, target, 0, threads=LANES) == 0
    if kind[0] == "f":
        with np.errstate(over="ignore"):
            expected = sources.astype(kind)
            past = np.abs(expected.astype(np.float64)) > np.abs(sources)
            expected[past] = np.nextafter(expected[past], expected.dtype.type(0))
    else:
        limits = np.iinfo(kind)
        exact = sources.view(np.uint32 if kind[0] == "u" else np.int32).astype(np.int64)
        expected = np.clip(exact, limits.min, limits.max).astype(kind)
    stored = device.read_array(array, content)
    np.testing.assert_array_equal(stored, expected[:, :channels].reshape(content.shape))


def test_a_formatted_store_outside_a_surface(cpu_device: Device) -> None:
    array = cpu_device.array(np.zeros((5, 7, 1), np.uint16), SURFACE)
    where = np.zeros((LANES, 3), np.int32)
    where[:, 0] = 7
    out = cpu_device.upload(np.zeros((LANES, 4), np.uint32))
    text = "sust.p.2d.b32.trap [%object, {%r0, %r1}], {%t};"
    cpu_device.launch(
        kernel(text, loads="s32"), cpu_device.surface(array), cpu_device.upload(where), out, 0, threads=LANES
    )
    assert [f.message for f in cpu_device.findings] == ["writes 2 bytes outside a surface, at x = 14 bytes"]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_sanitizers_see_a_formatted_store(tmp_path: Path, width: int) -> None:
    """A component that the instruction does not give is uninitialized; two warps that write a texel race."""
    content = np.zeros((5, 7, 2), np.float16)
    where = np.zeros((LANES, 3), np.int32)
    read = "suld.b.2d.b32.trap {%d0}, [%object, {%r0, %r1}]; setp.eq.b32 %p, %d0, 0; @%p mov.b32 %d1, 1;"
    place = "[%object, {%r0, %r1}]"
    rows: list[tuple[str, set[str]]] = [
        (f"sust.p.2d.v2.b32.trap {place}, {{%t, %t}};", set()),
        (f"sust.p.2d.b32.trap {place}, {{%t}};", {"initcheck"}),
    ]
    for store, told in rows:
        device = Device(tmp_path, width, Checks(init=True))
        handle = device.surface(device.array(content, SURFACE, filled=False))
        text = f".reg .pred %p; setp.eq.u32 %p, %t, 0; @%p {store} bar.sync 0; {read}"
        run(device, kernel(text, loads="s32"), handle, where, np.uint32)
        assert {f.rule for f in device.findings} == told, device.findings
    device = Device(tmp_path, width, Checks(race=True))
    handle = device.surface(device.array(content.astype(np.int16), SURFACE))
    run(device, kernel("sust.p.2d.b32.trap [%object, {%r0, %r1}], {%t};", loads="s32"), handle, where, np.uint32)
    assert {f.rule for f in device.findings} == {"racecheck"}
