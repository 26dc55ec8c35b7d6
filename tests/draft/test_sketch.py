"""What is read from a kernel's text: arrays, sizes, scalars, grid and block."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kcheck.draft import Sketch, op_name, reference_text, sketch, spec_text
from kcheck.errors import UserError
from kcheck.specfile import load_spec

ROOT = Path(__file__).parents[2]


def told(found: Sketch) -> dict[str, str]:
    """By parameter, what it was seen to be, in one line."""
    lines = {}
    for one in found.arguments:
        uses = "read" * one.loads + "+" * (one.loads and one.stores) + "write" * one.stores
        lines[one.name] = {
            "array": f"{one.dtype} [{', '.join(one.shape)}] {uses}".strip(),
            "dim": f"dim {one.dim}",
            "scalar": f"scalar {one.dtype}",
        }[one.kind]
    return lines


def test_a_bound_that_is_a_parameter_is_a_dim(drawn) -> None:
    """``if i < n`` makes n the length of every array that i indexes."""
    found = drawn("""
        @cuda.jit
        def k(x, alpha, y, n):
            i = cuda.grid(1)
            if i < n:
                y[i] = alpha * x[i]
    """)
    assert told(found) == {"x": "[n] read", "alpha": "scalar float32", "y": "[n] write", "n": "dim n"}
    assert found.grid == ("ceildiv(n, 128)",)
    assert found.block == (128,)
    assert not found.block_from


@pytest.mark.parametrize(
    ("value", "asks"), [("math.inf", True), ('float("-inf")', True), ("LOWEST", True), ("0.0", False)]
)
def test_a_kernel_that_uses_infinities_may_get_some(drawn, value: str, asks: bool) -> None:
    """The draft asks for ``allow_inf``: only the author knows which inputs may be infinite."""
    found = drawn(f"""
        LOWEST = -math.inf
        @cuda.jit
        def k(x, y):
            i = cuda.grid(1)
            if i < x.size:
                y[i] = 0 if x[i] == {value} else x[i]
    """)
    assert any("allow_inf: true" in guess for guess in found.guesses) is asks


def test_a_guard_that_returns_is_a_bound_too(drawn) -> None:
    """``if i >= n: return`` says the same; names of x.shape are kept."""
    found = drawn("""
        @cuda.jit
        def k(x, y):
            rows, columns = x.shape
            i, j = cuda.grid(2)
            if i >= columns or j >= rows:
                return
            y[j, i] += x[j, i]
    """)
    assert told(found) == {"x": "[rows, columns] read", "y": "[rows, columns] read+write"}
    assert found.grid == ("ceildiv(columns, 16)", "ceildiv(rows, 16)")


def test_one_block_per_row_with_a_shared_array(drawn) -> None:
    """blockIdx.x as an index is a block per element; the block is as long as the shared array."""
    found = drawn("""
        B = 64

        @cuda.jit
        def k(x, y):
            part = cuda.shared.array(B, np.float32)
            t = cuda.threadIdx.x
            row = cuda.blockIdx.x
            for c in range(t, x.shape[1], B):
                part[t] += x[row, c]
            y[row] = part[0]
    """)
    assert told(found) == {"x": "[M, N] read", "y": "[M] write"}
    assert (found.grid, found.block, found.block_from) == (("M",), (64,), "the shape of a shared array")


def test_a_launch_in_the_file_says_the_block(drawn) -> None:
    """Its constants are followed."""
    found = drawn("""
        @cuda.jit
        def k(x):
            x[cuda.grid(2)] = 1

        def main(x):
            threads = (8, 4)
            k[(1, 1), threads](x)
    """)
    assert (found.block, found.block_from) == ((8, 4), "a launch in the file")


def test_aliases_atomics_device_functions_and_flat_indexes(drawn) -> None:
    """Rows of arrays, atomics, functions of the file, and ``i * n + j`` are followed."""
    found = drawn("""
        @cuda.jit(device=True)
        def put(out, i, v):
            out[i] = v

        @cuda.jit
        def k(x, where, hist, out, flat, m, n):
            i, j = cuda.grid(2)
            if i < m and j < n:
                row = x[i]
                cuda.atomic.add(hist, where[i], row[j])
                put(out, i, 1)
                flat[i * n + j] = 0
    """)
    assert told(found) == {
        "x": "[m, n] read",
        "where": "int32 [m] read",
        "hist": "[M] read+write",
        "out": "[N] write",
        "flat": "[m * n] write",
        "m": "dim m",
        "n": "dim n",
    }


def test_a_name_that_is_assigned_again_is_another_index(drawn) -> None:
    """The transposition that swaps its blocks writes to the transposed shape."""
    found = drawn("""
        T = 8

        @cuda.jit
        def k(a, b):
            tile = cuda.shared.array((T, T), np.float32)
            x = cuda.blockIdx.x * T + cuda.threadIdx.x
            y = cuda.blockIdx.y * T + cuda.threadIdx.y
            if y < a.shape[0] and x < a.shape[1]:
                tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
            cuda.syncthreads()
            x = cuda.blockIdx.y * T + cuda.threadIdx.x
            y = cuda.blockIdx.x * T + cuda.threadIdx.y
            if y < b.shape[0] and x < b.shape[1]:
                b[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]
    """)
    assert told(found)["a"] == "[M, N] read"
    assert told(found)["b"] == "[K, L] write"
    assert found.grid == ("ceildiv(N, 8)", "ceildiv(M, 8)")


def test_a_grid_stride_loop_runs_over_its_bound(drawn) -> None:
    """One thread per element of the first round is enough for the whole array."""
    found = drawn("""
        @cuda.jit
        def k(x, n):
            for i in range(cuda.grid(1), n, cuda.gridsize(1)):
                x[i] *= 2
    """)
    assert (found.grid, found.guesses) == (("ceildiv(n, 128)",), ())


def test_an_index_array_stays_within_the_axis_that_it_indexes(drawn) -> None:
    """Its values end at the length of that axis."""
    found = drawn("""
        @cuda.jit
        def k(x, counts):
            i = cuda.grid(1)
            if i < x.size:
                cuda.atomic.add(counts, x[i], 1)
    """)
    assert "x: {shape: [M], dtype: int32, values: {integers: [0, N - 1]}}" in spec_text(found, "k.py:k", "r.py:k")


@pytest.mark.parametrize(
    ("statement", "declared"),
    [
        (
            "cuda.atomic.add(bins, x[i], 1)",
            "x: {shape: [n], dtype: int32, values: {integers: [0, 9]}}   # TODO: its range",
        ),
        ("bins[x[i]] += 1", "x: {shape: [n], dtype: int32, values: {integers: [0, 9]}}   # TODO: its range"),
        ("bins[int(x[i] * 10)] = 1", "x: [n]"),
    ],
)
def test_an_index_of_a_shared_array_is_an_integer(drawn, statement: str, declared: str) -> None:
    """In an atomic and in a subscript, but not if the kernel converts the value."""
    found = drawn(f"""
        @cuda.jit
        def k(x, hist, n):
            bins = cuda.shared.array(256, int32)
            i = cuda.grid(1)
            if i < n:
                {statement}
    """)
    assert declared in [line.strip() for line in spec_text(found, "k.py:k", "r.py:k").splitlines()]


def test_an_explicit_signature_gives_dtypes(drawn) -> None:
    """Of arrays and scalars, and the number of axes."""
    found = drawn("""
        @cuda.jit("void(float64[:,:], int64, float32[:])")
        def k(x, s, y):
            y[0] = s
    """)
    assert told(found) == {"x": "float64 [M, N] read", "s": "scalar int64", "y": "float32 [1] write"}


def test_integer_tiles_give_the_dtype_of_what_is_copied_to_and_from_them(drawn) -> None:
    """``tile[t] = x[i]`` into a shared array of int32 says what x holds, also through a local name."""
    found = drawn("""
        from numba import int32

        @cuda.jit
        def k(x, w, y, counts, n):
            tile = cuda.shared.array(128, int32)
            bins = cuda.local.array(4, dtype=np.uint8)
            i, t = cuda.grid(1), cuda.threadIdx.x
            value = x[i] if i < n else 0
            tile[t] = value
            bins[0] = w[i]
            cuda.syncthreads()
            if i < n:
                y[i] = tile[t] + tile[t ^ 1]
                cuda.atomic.add(counts, 0, bins[0])
    """)
    dtypes = {one.name: one.dtype for one in found.arrays}
    assert dtypes == {"x": "int32", "w": "uint8", "y": "int32", "counts": "uint8"}


@pytest.mark.parametrize(
    ("tile", "store"),
    [
        ("np.float32", "x[i]"),  # float16 is often accumulated in float32
        ("np.int32", "int(x[i] * 2.0)"),
        ("np.int32", "x[i] / 2"),
    ],
)
def test_other_tiles_leave_the_dtype_open(drawn, tile: str, store: str) -> None:
    """A value that is converted says nothing about the array that it was read from."""
    found = drawn(f"""
        @cuda.jit
        def k(x, y, n):
            tile = cuda.shared.array(128, {tile})
            i, t = cuda.grid(1), cuda.threadIdx.x
            if i < n:
                tile[t] = {store}
                y[i] = tile[t] * 0.5
    """)
    assert [one.dtype for one in found.arrays] == ["", ""]


def test_an_array_updated_in_place_keeps_its_dtype(drawn) -> None:
    """The output shares the memory of the input, so the draft declares the same dtype for both."""
    found = drawn("""
        @cuda.jit("void(int32[:], int32[:])")
        def k(x, h):
            i = cuda.grid(1)
            if i < x.shape[0]:
                cuda.atomic.add(h, x[i] % 100, 1)
    """)
    assert "h_out: {shape: [N], dtype: int32, alias: h}" in spec_text(found, "k.py:k", "r.py:k")


HALO_KERNEL = """
    BLOCK = {block}
    HALO = BLOCK + 2

    @cuda.jit
    def k(x, y):
        tile = cuda.shared.array({shape}, np.float32)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        tile[t] = x[i]
        cuda.syncthreads()
        y[i] = tile[t]
"""


@pytest.mark.parametrize(
    ("block", "shape", "expected"),
    [
        (64, "HALO", 64),
        (64, "BLOCK + 2", 64),
        (64, "(BLOCK + 2,)", 64),
        (64, "2 * BLOCK", 128),
        (64, "66", 128),  # no constant in the shape: the default
        (50, "HALO", 128),  # 50 is not a multiple of 32 either: the default
    ],
)
def test_a_block_from_a_shared_array_is_a_multiple_of_32(drawn, block: int, shape: str, expected: int) -> None:
    """A halo is not part of the block: the constant that the shape is made of is."""
    assert drawn(HALO_KERNEL.format(block=block, shape=shape)).block == (expected,)


@pytest.mark.parametrize("shape", ["(T, T + 1)", "(T + 2, T + 2)"])
def test_padding_of_a_shared_tile_is_not_part_of_the_block(drawn, shape: str) -> None:
    """A tile of T + 1 or T + 2 columns has a block of T threads along x."""
    found = drawn(f"""
        T = 8

        @cuda.jit
        def k(x, y):
            tile = cuda.shared.array({shape}, np.float32)
            tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
            i, j = cuda.grid(2)
            tile[ty, tx] = x[j, i]
            y[j, i] = tile[ty, tx]
    """)
    assert found.block == (8, 8)


def test_a_block_from_a_shared_array_is_marked_as_a_guess(drawn) -> None:
    """The draft says TODO where the text does not show the launch."""
    text = spec_text(drawn(HALO_KERNEL.format(block=64, shape="HALO")), "k.py:k", "r.py:k")
    assert "block: [64]   # TODO: a guess from the shape of a shared array" in text


def test_an_axis_indexed_by_constants_has_a_fixed_size(drawn) -> None:
    """The size is the largest index plus one. An axis whose length the kernel reads stays free."""
    found = drawn("""
        LAST = 4

        @cuda.jit
        def k(x, h, points, taps, open, y):
            i = cuda.grid(1)
            if i < x.shape[0]:
                y[i] = h[0] * x[i] + h[2] * points[i, 1] + taps[LAST]
                for j in range(open.shape[0]):
                    y[i] += open[0] * j
    """)
    shapes = {array.name: array.shape for array in found.arrays}
    assert shapes == {
        "x": ("M",),
        "h": ("3",),
        "points": ("M", "2"),
        "taps": ("5",),
        "open": ("N",),
        "y": ("M",),
    }


def test_a_kernel_in_ptx_gets_no_draft(tmp_path: Path) -> None:
    """The error says where specs are described, and does not read the file as Python."""
    (tmp_path / "k.ptx").write_text(".version 8.0\n")
    with pytest.raises(UserError, match=r"k\.ptx: .* write one for 'k' as in docs/spec\.md"):
        sketch(tmp_path / "k.ptx", "k")


def test_a_file_that_is_not_python_names_the_line_once(tmp_path: Path) -> None:
    """As Python words it, without its own name of the place."""
    (tmp_path / "k.py").write_text("x = 1\ndef k(:\n")
    with pytest.raises(UserError, match=r"k\.py:2: this is not valid Python: invalid syntax$"):
        sketch(tmp_path / "k.py", "k")


def test_an_unknown_function_names_the_nearest(tmp_path: Path) -> None:
    """Else the kernels of the file."""
    (tmp_path / "k.py").write_text("@cuda.jit\ndef softmax(x):\n    pass\n")
    with pytest.raises(UserError, match="no function 'softmx' in this file; did you mean 'softmax'"):
        sketch(tmp_path / "k.py", "softmx")
    with pytest.raises(UserError, match="its kernels are softmax"):
        sketch(tmp_path / "k.py", "zzz")


KERNELS = [
    (path, node.name)
    for path in sorted((ROOT / "kernels").glob("*.py"))
    for node in ast.parse(path.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef)
    and "cuda.jit" in "".join(map(ast.unparse, node.decorator_list))
    and "device=True" not in "".join(map(ast.unparse, node.decorator_list))
]


@pytest.mark.parametrize(("path", "name"), KERNELS, ids=[name for _, name in KERNELS])
def test_every_draft_validates(tmp_path: Path, path: Path, name: str) -> None:
    """Drafts of the project's own kernels are valid specs, and their references are Python."""
    (tmp_path / "kcheck.yaml").touch()
    (tmp_path / path.name).write_bytes(path.read_bytes())
    found = sketch(path, name)
    (tmp_path / "r.py").write_text(reference_text(found, "s.yaml", "r.py"))
    (tmp_path / "s.yaml").write_text(spec_text(found, f"{path.name}:{name}", f"r.py:{op_name(name)}"))
    assert load_spec(tmp_path / "s.yaml").op == op_name(name)


def test_offsets_have_one_element_more_and_end_at_the_size_that_they_divide(drawn) -> None:
    """``range(offsets[row], offsets[row + 1])``, as in CSR: ascending from 0 to the length of what is walked."""
    found = drawn("""
        @cuda.jit
        def k(offsets, data, y):
            row = cuda.grid(1)
            if row < y.size:
                total = np.float32(0)
                for j in range(offsets[row], offsets[row + 1]):
                    total += data[j]
                y[row] = total
    """)
    assert told(found) == {"offsets": "int32 [M + 1] read", "data": "[N] read", "y": "[M] write"}
    assert {one.name: one.values for one in found.arguments}["offsets"] == "{offsets: N}"
    assert found.grid == ("ceildiv(M, 128)",)


def test_a_block_for_each_segment_runs_over_the_segments(drawn) -> None:
    """blockIdx.x inside of an index is not the place of the element; ends may have names."""
    found = drawn("""
        @cuda.jit
        def k(values, offsets, out):
            r = cuda.blockIdx.x
            begin = offsets[r]
            end = offsets[r + 1]
            for i in range(begin + cuda.threadIdx.x, end, cuda.blockDim.x):
                out[i] = values[r]
    """)
    assert told(found) == {"values": "[M] read", "offsets": "int32 [M + 1] read", "out": "[N] write"}
    assert found.grid == ("M",)


def test_the_number_of_segments_may_be_the_length_of_offsets_less_one(drawn) -> None:
    found = drawn("""
        @cuda.jit
        def k(ptr, columns, x, y):
            i = cuda.grid(1)
            n = ptr.shape[0] - 1
            if i < n:
                total = np.float32(0)
                for j in range(ptr[i], ptr[i + 1]):
                    total += x[columns[j]]
                y[i] = total
    """)
    assert told(found) == {
        "ptr": "int32 [n + 1] read",
        "columns": "int32 [M] read",
        "x": "[N] read",
        "y": "[n] write",
    }
    assert {one.name: one.values for one in found.arguments}["ptr"] == "{offsets: M}"


def test_neighbors_that_are_gathered_are_no_offsets(drawn) -> None:
    """The twin: ``index[i]`` and ``index[i + 1]`` as indexes, without a range between them."""
    found = drawn("""
        @cuda.jit
        def k(index, x, y):
            i = cuda.grid(1)
            if i < y.size:
                y[i] = x[index[i]] + x[index[i + 1]]
    """)
    assert {one.name: one.values for one in found.arguments}["index"] == "{integers: [0, N - 1]}"
