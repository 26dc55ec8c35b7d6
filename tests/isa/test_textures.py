"""Textures and surfaces against a second reading of the CUDA programming guide, at several widths."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from kcheck.ptx.abi import Checks
from tests.isa.machines import WIDTHS
from tests.isa.model.texture import Sampler, fetch, gather, texels
from tests.isa.texture_machine import LAYERED, SURFACE, Device, Gpu, Refused, of_array, of_linear, of_pitch

LANES = 96
_SHAPES = {"1d": (7,), "2d": (5, 7), "3d": (3, 5, 7)}
_WORDS = {"1d": "{%f0}", "2d": "{%f0, %f1}", "3d": "{%f0, %f1, %f2, %f2}"}


TEX = "tex.2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%object, {%f0, %f1}];"
READ = "suld.b.2d.b32.trap {%d0}, [%object, {%r0, %r1}];"
WRITE = "sust.b.2d.b32.trap [%object, {%r0, %r1}], {%t};"
GATHER = "tld4.r.2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%object, {%f0, %f1}];"
ASK = (
    "txq.width.b32 %d0, [%object]; txq.height.b32 %d1, [%object]; txq.array_size.b32 %d2, [%object];"
    " txq.normalized_coords.b32 %d3, [%object];"
)
ASK_SURFACE = "suq.width.b32 %d0, [%object]; suq.height.b32 %d1, [%object]; suq.array_size.b32 %d2, [%object];"
TEXTS = "\n".join((TEX, READ, WRITE, GATHER, ASK, ASK_SURFACE))
"""Every opcode."""


def kernel(instruction: str, *, loads: str = "f32") -> str:
    """A kernel that reads three coordinates of each thread, and stores four words of its results."""
    register = {"f32": "f", "s32": "r"}[loads]
    return f"""
.visible .entry k(.param .u64 object, .param .u64 places, .param .u64 out, .param .u32 layer) {{
    .reg .b64 %object, %at, %out, %step;
    .reg .u32 %t, %layer;
    .reg .b32 %d<4>;
    .reg .f32 %f<3>;
    .reg .s32 %r<3>;
    ld.param.u64 %object, [object];
    ld.param.u64 %at, [places];
    ld.param.u64 %out, [out];
    ld.param.u32 %layer, [layer];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %step, %t, 12;
    add.u64 %at, %at, %step;
    ld.global.{loads} %{register}0, [%at];
    ld.global.{loads} %{register}1, [%at+4];
    ld.global.{loads} %{register}2, [%at+8];
    mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0;
    {instruction}
    mul.wide.u32 %step, %t, 16;
    add.u64 %out, %out, %step;
    st.global.v4.b32 [%out], {{%d0, %d1, %d2, %d3}};
    ret;
}}
"""


def run(device: Device, ptx: str, handle: int, places: np.ndarray, kind: type, layer: int = 0) -> np.ndarray:
    """The words that each thread stored."""
    out = np.zeros((LANES, 4), kind)
    at, target = device.upload(places), device.upload(out)
    assert device.launch(ptx, handle, at, target, layer, threads=LANES) == 0, device.findings
    return device.download(target, out)


def agree(device: Device, found: np.ndarray, expected: object, told: str = "") -> None:
    """The same bits; on a CUDA device, which aligns the terms of a weighted sum to fewer bits, nearly the same."""
    if isinstance(device, Gpu):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, err_msg=told)
    else:
        np.testing.assert_array_equal(found, expected, told)


def places(sizes: tuple[int, ...], normalized: bool, seed: int) -> np.ndarray:
    """Coordinates inside, outside, at the edges of texels and between them; x first."""
    rng = np.random.default_rng(seed)
    found = np.zeros((LANES, 3), np.float32)
    for axis, size in enumerate(reversed(sizes)):
        x = rng.uniform(-size, 2 * size, LANES)
        x[:24] = np.floor(x[:24]) + rng.choice([0, 0.5, 1 / 512, 1 - 1 / 512, 3 / 512], 24)
        found[:, axis] = x / size if normalized else x
    return found


@pytest.mark.parametrize("geometry", list(_SHAPES))
def test_a_fetch_filters_and_addresses_as_the_guide_says(device: Device, geometry: str) -> None:
    """Every addressing mode on every axis, point and linear, coordinates in texels and normalized."""
    shape = _SHAPES[geometry]
    content = np.random.default_rng(1).standard_normal((*shape, 4)).astype(np.float32)
    array = device.array(content)
    ptx = kernel(f"tex.{geometry}.v4.f32.f32 {{%d0, %d1, %d2, %d3}}, [%object, {_WORDS[geometry]}];")
    modes = ("clamp", "wrap", "mirror", "border")
    for n, (linear, normalized, mode) in enumerate(itertools.product((False, True), (False, True), modes)):
        turned = modes[modes.index(mode) :] + modes
        sampler = Sampler(turned[: len(shape)], linear, normalized)
        handle = device.texture(of_array(array), sampler)
        where = places(shape, normalized, n)
        expected = np.array([fetch(content, sampler, tuple(p[: len(shape)])) for p in where])
        agree(device, run(device, ptx, handle, where, np.float32), expected, str(sampler))
        device("cuTexObjectDestroy", handle)


@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4"])
def test_texels_of_every_format_and_number_of_channels(device: Device, kind: str) -> None:
    """Integers as they are or as fractions, halves as float32; missing channels are 0."""
    rng = np.random.default_rng(2)
    for channels, as_fraction in itertools.product((1, 2, 4), (False, True)):
        if kind[0] == "f":
            content = rng.standard_normal((6, channels)).astype(kind)
        else:
            limits = np.iinfo(kind)
            content = rng.integers(limits.min, limits.max, (6, channels), kind, endpoint=True)
            content[0], content[1] = limits.min, limits.max
        sampler = Sampler(("clamp",), read_normalized=as_fraction)
        handle = device.texture(of_array(device.array(content)), sampler)
        result = texels(content, sampler)
        name = {"f": "f32", "i": "s32", "u": "u32"}[result.dtype.kind]
        ptx = kernel(f"tex.1d.v4.{name}.f32 {{%d0, %d1, %d2, %d3}}, [%object, {{%f0}}];")
        where = np.zeros((LANES, 3), np.float32)
        where[:, 0] = np.arange(LANES) - 4.5
        expected = np.zeros((LANES, 4), result.dtype)
        expected[:, :channels] = result[np.clip(np.arange(LANES) - 5, 0, 5)]
        np.testing.assert_array_equal(run(device, ptx, handle, where, result.dtype.type), expected)


def test_a_fetch_from_linear_memory_is_0_outside(device: Device) -> None:
    """tex1Dfetch: an index, no filter, and 0 for texels that do not exist."""
    content = np.arange(1, 11, dtype=np.int16).reshape(5, 2)
    handle = device.texture(of_linear(device.upload(content), content), Sampler(("wrap",)))
    ptx = kernel("tex.1d.v4.s32.s32 {%d0, %d1, %d2, %d3}, [%object, {%r0}];", loads="s32")
    where = np.zeros((LANES, 3), np.int32)
    where[:, 0] = np.arange(LANES) - 3
    where[-1, 0] = -(2**31)
    expected = np.zeros((LANES, 4), np.int32)
    expected[3:8, :2] = content
    np.testing.assert_array_equal(run(device, ptx, handle, where, np.int32), expected)


def test_a_texture_of_rows_of_memory_ends_where_its_rows_end(device: Device) -> None:
    """Rows may be further apart than they are long."""
    rows = np.random.default_rng(3).standard_normal((4, 64, 1)).astype(np.float32)
    content = rows[:, :9]
    sampler = Sampler(("clamp", "border"), linear=True)
    handle = device.texture(of_pitch(device.upload(rows), content, 256), sampler)
    ptx = kernel(TEX)
    where = places((4, 9), False, 3)
    expected = [fetch(content, sampler, tuple(p[:2]))[0] for p in where]
    agree(device, run(device, ptx, handle, where, np.float32)[:, 0], expected)


@pytest.mark.parametrize("geometry", ["1d", "2d"])
def test_a_layer_is_chosen_by_its_number(device: Device, geometry: str) -> None:
    """Numbers are unsigned; those that are too large are the last layer. Nothing is filtered between layers."""
    shape = _SHAPES[geometry]
    content = np.random.default_rng(4).standard_normal((3, *shape, 1)).astype(np.float32)
    sampler = Sampler(("clamp",) * len(shape), linear=True)
    handle = device.texture(of_array(device.array(content, LAYERED)), sampler)
    words = {"1d": "{%layer, %f0}", "2d": "{%layer, %f0, %f1, %f1}"}[geometry]
    ptx = kernel(f"tex.a{geometry}.v4.f32.f32 {{%d0, %d1, %d2, %d3}}, [%object, {words}];")
    where = places(shape, False, 5)
    for layer in (0, 1, 2, 3, 2**32 - 1):
        chosen = content[min(layer, 2)]
        expected = [fetch(chosen, sampler, tuple(p[: len(shape)]))[0] for p in where]
        found = run(device, ptx, handle, where, np.float32, layer)[:, 0]
        agree(device, found, expected)


@pytest.mark.parametrize(("name", "component"), [("r", 0), ("g", 1), ("a", 3)])
def test_a_gather_takes_one_component_of_four_texels(device: Device, name: str, component: int) -> None:
    """Counter-clockwise from the lower left."""
    content = np.random.default_rng(6).standard_normal((5, 7, 4)).astype(np.float32)
    sampler = Sampler(("mirror", "border"), normalized=True)
    handle = device.texture(of_array(device.array(content)), sampler)
    ptx = kernel(GATHER.replace(".r.", f".{name}."))
    where = places((5, 7), True, 6)
    expected = [gather(content, sampler, (p[0], p[1]), component) for p in where]
    np.testing.assert_array_equal(run(device, ptx, handle, where, np.float32), expected)


def test_a_level_of_detail_has_no_effect_on_a_texture_with_one(device: Device) -> None:
    """``.level`` and ``.grad`` choose among levels."""
    content = np.random.default_rng(7).standard_normal((5, 7, 1)).astype(np.float32)
    sampler = Sampler(("clamp", "clamp"), linear=True)
    handle = device.texture(of_array(device.array(content)), sampler)
    where = places((5, 7), False, 7)
    expected = [fetch(content, sampler, tuple(p[:2]))[0] for p in where]
    head = "2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%object, {%f0, %f1}]"
    for text in (f"tex.level.{head}, %f2;", f"tex.grad.{head}, {{%f0, %f1}}, {{%f1, %f0}};"):
        found = run(device, kernel(text), handle, where, np.float32)[:, 0]
        agree(device, found, expected)


def test_objects_answer_queries(cpu_device: Device) -> None:
    """Of a layered array ``array_size`` is the number of layers."""
    content = np.zeros((3, 5, 7, 2), np.uint8)
    array = cpu_device.array(content, LAYERED | SURFACE)
    texture = cpu_device.texture(of_array(array), Sampler(("clamp", "clamp"), normalized=True))
    zeros = np.zeros((LANES, 3), np.float32)
    assert (run(cpu_device, kernel(ASK), texture, zeros, np.uint32) == [7, 5, 3, 1]).all()
    assert (
        run(cpu_device, kernel(ASK_SURFACE), cpu_device.surface(array), zeros, np.uint32) == [7, 5, 3, 0]
    ).all()


_MOVES = {"b8": ("u1", 1), "b16": ("u2", 1), "b32": ("u4", 1), "v2.b32": ("u4", 2), "v4.b16": ("u2", 4)}


@pytest.mark.parametrize("mode", ["clamp", "zero"])
@pytest.mark.parametrize("kind", list(_MOVES))
def test_a_surface_is_read_and_written_by_bytes_and_rows(device: Device, kind: str, mode: str) -> None:
    """What is outside is moved to the edge by ``.clamp``; with ``.zero`` it reads as 0 and is not written."""
    dtype, channels = _MOVES[kind]
    size = np.dtype(dtype).itemsize * channels
    content = np.random.default_rng(8).integers(1, 200, (5, 7, channels)).astype(dtype)
    array = device.array(content, SURFACE)
    registers = [f"%d{n}" for n in range(channels)]
    vector = "{" + ", ".join(registers) + "}"
    narrow = f"suld.b.2d.{kind}.{mode} {vector}, [%object, {{%r0, %r1}}];"
    if "16" in kind or "8" in kind:
        halves = ", ".join(f"%h{n}" for n in range(channels))
        moves = " ".join(f"cvt.u32.u16 %d{n}, %h{n};" for n in range(channels))
        narrow = f".reg .b16 %h<4>; suld.b.2d.{kind}.{mode} {{{halves}}}, [%object, {{%r0, %r1}}]; {moves}"
    where = np.zeros((LANES, 3), np.int32)
    where[:, 0], where[:, 1] = (np.arange(LANES) % 13 - 3) * size, np.arange(LANES) // 13 - 1
    column, row = where[:, 0] // size, where[:, 1]
    inside = (column >= 0) & (column < 7) & (row >= 0) & (row < 5)
    expected = np.zeros((LANES, 4), np.uint32)
    expected[:, :channels] = content[np.clip(row, 0, 4), np.clip(column, 0, 6)]
    if mode == "zero":
        expected[~inside] = 0
    handle = device.surface(array)
    found = run(device, kernel(narrow, loads="s32"), handle, where, np.uint32)
    np.testing.assert_array_equal(found, expected)
    store = f"sust.b.2d.{kind}.{mode} [%object, {{%r0, %r1}}], "
    values = ", ".join(["%t"] * channels)
    if "16" in kind or "8" in kind:
        values = ", ".join(["%h"] * channels)
        store = f".reg .b16 %h; cvt.u16.u32 %h, %t; {store}"
    run(device, kernel(f"{store}{{{values}}};", loads="s32"), handle, where, np.uint32)
    after = content.copy()
    if mode == "zero":
        for thread in np.flatnonzero(inside):
            after[row[thread], column[thread]] = thread
        np.testing.assert_array_equal(device.read_array(array, content), after)
    else:  # several threads write at the edges
        found_after = device.read_array(array, content)
        np.testing.assert_array_equal(found_after[1:4, 1:6], _written(content, row, column, inside)[1:4, 1:6])


def _written(content: np.ndarray, row: np.ndarray, column: np.ndarray, inside: np.ndarray) -> np.ndarray:
    after = content.copy()
    for thread in np.flatnonzero(inside):
        after[row[thread], column[thread]] = thread
    return after


def test_a_three_dimensional_and_a_layered_surface(device: Device) -> None:
    """The last coordinate of a 3D surface counts slices; of a layered one the first counts layers."""
    content = np.arange(3 * 5 * 7, dtype=np.uint32).reshape(3, 5, 7, 1)
    where = np.zeros((LANES, 3), np.int32)
    where[:] = np.stack(np.unravel_index(np.arange(LANES), (3, 5, 7)), 1)[:, ::-1]
    where[:, 0] *= 4
    for flags, text in (
        (SURFACE, "suld.b.3d.b32.trap {%d0}, [%object, {%r0, %r1, %r2, %r2}];"),
        (SURFACE | LAYERED, "suld.b.a2d.b32.trap {%d0}, [%object, {%r2, %r0, %r1, %r1}];"),
    ):
        handle = device.surface(device.array(content, flags))
        found = run(device, kernel(text, loads="s32"), handle, where, np.uint32)
        np.testing.assert_array_equal(found[:, 0], np.arange(LANES))


@pytest.mark.parametrize(
    ("instruction", "x", "told"),
    [
        (
            "suld.b.2d.b32.trap {%d0}, [%object, {%r0, %r1}];",
            28,
            "reads 4 bytes outside a surface, at x = 28",
        ),
        (
            "sust.b.2d.b32.trap [%object, {%r0, %r1}], {%t};",
            -4,
            "writes 4 bytes outside a surface, at x = -4",
        ),
    ],
)
def test_a_trap_outside_a_surface_is_a_finding(cpu_device: Device, instruction: str, x: int, told: str) -> None:
    """It stops the launch."""
    handle = cpu_device.surface(cpu_device.array(np.zeros((5, 7, 1), np.uint32), SURFACE))
    where = np.zeros((LANES, 3), np.int32)
    where[5, 0] = x
    cpu_device.findings.clear()
    at, out = cpu_device.upload(where), cpu_device.upload(np.zeros((LANES, 4), np.uint32))
    assert cpu_device.launch(kernel(instruction, loads="s32"), handle, at, out, 0, threads=LANES) != 0
    (finding,) = cpu_device.findings
    assert (finding.rule, finding.message, finding.thread) == ("memcheck", f"{told} bytes", (5, 0, 0))


def test_a_wild_handle_is_a_finding(cpu_device: Device) -> None:
    """Numbers that are no object, objects that were destroyed or whose memory was freed, and surfaces."""
    content = np.zeros((5, 7, 1), np.float32)
    array = cpu_device.array(content, SURFACE)
    destroyed = cpu_device.texture(of_array(array), Sampler(("clamp", "clamp")))
    cpu_device("cuTexObjectDestroy", destroyed)
    gone = cpu_device.array(content)
    freed = cpu_device.texture(of_array(gone), Sampler(("clamp", "clamp")))
    cpu_device("cuArrayDestroy", gone)
    surface = cpu_device.surface(array)
    at = cpu_device.upload(np.zeros((LANES, 4), np.float32))
    for handle, told in (
        (0, "0x0, which is not an object"),
        (12345, "0x3039, which is not an object"),
        (2**64 - 1, "0xffffffffffffffff, which is not an object"),
        (destroyed, f"{destroyed:#x}, an object that was destroyed"),
        (freed, f"texture object {freed:#x}, whose memory was freed"),
        (surface, f"{surface:#x}, which is a surface object"),
    ):
        cpu_device.findings.clear()
        assert cpu_device.launch(kernel(TEX), handle, at, at, 0, threads=LANES) != 0
        (finding,) = cpu_device.findings
        assert (finding.rule, finding.message) == ("memcheck", f"uses {told}, as a texture object")


@pytest.mark.parametrize("width", WIDTHS)
def test_an_uninitialized_texel_is_uninitialized_as_a_result(tmp_path: Path, width: int) -> None:
    """Only where the result depends on it, and as a surface too."""
    device = Device(tmp_path, width, Checks(init=True))
    content = np.zeros((5, 7, 1), np.float32)
    branch = "setp.eq.b32 %p, %d0, 0; @%p mov.b32 %d0, 1;"
    for text, loads in (
        (TEX, "f32"),
        (READ, "s32"),
    ):
        ptx = kernel(f".reg .pred %p; {text} {branch}", loads=loads)
        for filled in (True, False):
            array = device.array(content, SURFACE, filled=filled)
            texture = device.texture(of_array(array), Sampler(("clamp", "clamp")))
            handle = texture if loads == "f32" else device.surface(array)
            device.findings.clear()
            run(device, ptx, handle, np.zeros((LANES, 3), loads.replace("s", "i").replace("32", "4")), np.uint32)
            assert {f.rule for f in device.findings} == (set() if filled else {"initcheck"}), device.findings


@pytest.mark.parametrize("width", WIDTHS)
def test_a_texel_that_another_thread_stores_is_a_race(tmp_path: Path, width: int) -> None:
    """Stores to a surface by two warps race; a texture of the memory that a kernel writes does too."""
    device = Device(tmp_path, width, Checks(race=True))
    content = np.zeros((5, 7, 1), np.float32)
    array = device.array(content, SURFACE)
    where = np.zeros((LANES, 3), np.int32)
    for mine, races in ((False, True), (True, False)):
        if mine:
            where[:34, 0] = np.arange(34) % 7 * 4
            where[:34, 1] = np.arange(34) // 7
        device.findings.clear()
        text = f"setp.lt.u32 %p, %t, 34; @%p {WRITE}"
        run(device, kernel(f".reg .pred %p; {text}", loads="s32"), device.surface(array), where, np.uint32)
        assert [f.rule for f in device.findings] == ["racecheck"] * races, device.findings
    out = np.zeros((LANES, 4), np.float32)
    target = device.upload(out)
    memory = device.texture(of_linear(target, out.reshape(-1, 1)), Sampler(("clamp",)))
    ptx = kernel("tex.1d.v4.f32.s32 {%d0, %d1, %d2, %d3}, [%object, {%r0}];", loads="s32")
    device.findings.clear()
    assert device.launch(ptx, memory, device.upload(where), target, 0, threads=LANES) == 0
    assert {f.rule for f in device.findings} == {"racecheck"}


def test_what_the_driver_refuses(cpu_device: Device) -> None:
    """A filter between integers, memory that is not there, cubemaps."""
    integers = cpu_device.array(np.zeros((5, 1), np.int32))
    with pytest.raises(Refused, match="INVALID_VALUE"):
        cpu_device.texture(of_array(integers), Sampler(("clamp",), linear=True))
    with pytest.raises(Refused, match="INVALID_VALUE"):
        cpu_device.texture(of_linear(512, np.zeros((5, 1), np.int32)), Sampler(("clamp",)))
    with pytest.raises(Refused, match="INVALID_VALUE"):
        cpu_device.surface(integers)
    with pytest.raises(Refused, match="NOT_SUPPORTED"):
        cpu_device.array(np.zeros((6, 5, 5, 1), np.float32), 0x04)
