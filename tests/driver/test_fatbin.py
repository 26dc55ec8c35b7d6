"""PTX in the fat binaries that nvcc writes, and the modules of a program that was built with -rdc=true."""

from __future__ import annotations

import struct

import pytest
import zstandard

from kcheck.driver.fatbin import FatBinaryError, choose_ptx, unpack_lz4
from kcheck.driver.ptx_link import link

PTX = b".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n"


def entry(kind: int, architecture: int, content: bytes, flags: int = 0x11, unpacked: int = 0) -> bytes:
    padded = content + bytes(-len(content) % 8)
    head = struct.pack(
        "<HHIQIIIIIIQQQ", kind, 0x101, 64, len(padded), len(content), 0, 0, architecture, 0, 0, flags, 0, unpacked
    )
    return head + padded


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_the_newest_ptx_that_the_device_runs_is_taken() -> None:
    binary = container(entry(1, 60, b"old"), entry(1, 80, PTX), entry(2, 80, b"\x7fELF"), entry(1, 90, b"newer"))
    assert choose_ptx(binary, (8, 6)) == PTX


def test_ptx_that_is_compressed_with_zstd_is_unpacked() -> None:
    packed = zstandard.ZstdCompressor().compress(PTX + b"\0")
    assert choose_ptx(container(entry(1, 75, packed, 0x8011, len(PTX) + 1)), (8, 0)) == PTX


def test_ptx_that_is_compressed_with_lz4_is_unpacked() -> None:
    # token: 4 literals "abcd", then a match of 4 + 4 bytes at distance 4; then 1 literal
    block = b"\x44abcd\x04\x00\x10e"
    assert unpack_lz4(block, 13) == b"abcdabcdabcde"
    assert choose_ptx(container(entry(1, 75, block, 0x2011, 13)), (8, 0)) == b"abcdabcdabcde"


@pytest.mark.parametrize("block", [b"\x44ab", b"\x04\x00\x00", b"\xf0"])
def test_a_damaged_lz4_block_is_an_error(block: bytes) -> None:
    with pytest.raises(FatBinaryError, match="damaged"):
        unpack_lz4(block, 100)


def test_machine_code_alone_names_the_option_to_add() -> None:
    with pytest.raises(
        FatBinaryError, match=r"only machine code \(sm_90\).*-gencode arch=compute_80,code=compute_80"
    ):
        choose_ptx(container(entry(2, 90, b"\x7fELF")), (8, 0))


def test_ptx_for_a_newer_device_names_the_option_of_exec() -> None:
    with pytest.raises(FatBinaryError, match=r"kcheck exec --cc 9.0"):
        choose_ptx(container(entry(1, 90, PTX)), (8, 0))


@pytest.mark.parametrize("cut", [20, 60, 100])
def test_a_cut_fat_binary_is_an_error(cut: int) -> None:
    whole = container(entry(1, 75, PTX))
    with pytest.raises(FatBinaryError, match="damaged"):
        choose_ptx(whole[:cut], (8, 0))


def test_modules_are_linked() -> None:
    """A declaration gives way to the definition; static names of two modules stay apart."""
    first = """.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) twice (.param .b32 x) ;
.global .align 4 .u32 own = 1;
.visible .entry k() { .reg .u32 %r; ld.global.u32 %r, [own]; { call twice; } ret; }
"""
    second = """.version 8.4
.target sm_75
.address_size 64
.visible .func (.param .b32 r) twice (.param .b32 x) { ret; }
.global .align 4 .u32 own = 2;
.weak .func shared() { ret; }
.visible .entry q() { .reg .u32 %r; ld.global.u32 %r, [own]; ret; }
"""
    text = link([first, second, second.replace("twice", "thrice").replace(" q()", " s()")])
    assert text.count("twice (.param") == 1
    assert ".extern" not in text
    assert text.startswith(".version 8.4")
    assert text.count(".func shared()") == 1
    assert "own_m1 = 2" in text
    assert "[own_m1]" in text
    assert "own = 1" in text
    assert "[own_m2]" in text
