"""One program for several tests: argv names what it does."""

import sys

import cupy
import numpy

ADD = cupy.RawKernel(
    r"""
extern "C" __global__ void add(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}
""",
    "add",
)
ADD_ONE_MORE = cupy.RawKernel(
    r"""
extern "C" __global__ void add_one_more(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i + 1] = x[i] + 1;
}
""",
    "add_one_more",
)
MODULE = r"""
__constant__ int factor;
template <typename T> __global__ void scale(T *x) { x[threadIdx.x] *= factor; }
"""


def raw(kernel: cupy.RawKernel) -> None:
    x = cupy.arange(1000, dtype=cupy.float32)
    y = cupy.zeros_like(x)
    kernel((8,), (128,), (x, y, numpy.int32(x.size)))
    print("raw", y.sum())


def module() -> None:
    made = cupy.RawModule(code=MODULE, options=("-std=c++17",), name_expressions=["scale<double>"])
    cupy.ndarray((1,), cupy.int32, made.get_global("factor"))[:] = 3
    x = cupy.arange(10.0)
    made.get_function("scale<double>")((1,), (10,), (x,))
    print("module", x.sum())


@cupy.fuse()
def hypotenuse(x: cupy.ndarray, y: cupy.ndarray) -> cupy.ndarray:
    return cupy.sqrt(x * x + y * y)


def generated() -> None:
    squares = cupy.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squares")
    length = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "length")
    x = cupy.arange(5.0)
    print(
        "generated", squares(x, 1.0).sum(), length(cupy.ones(16)), hypotenuse(3 * cupy.ones(2), 4 * cupy.ones(2))
    )


def arrays() -> None:
    x = cupy.arange(60).reshape(3, 4, 5)
    print("arrays", x.sum(axis=(0, 2)), x[x > 57], cupy.cumsum(x)[-1], cupy.bincount(x[0, 0]), x.mean())


def streams() -> None:
    stream, x = cupy.cuda.Stream(non_blocking=True), cupy.zeros(4)
    with stream:
        stream.begin_capture()
        x += 1
        graph = stream.end_capture()
        graph.launch(stream)
        graph.launch(stream)
    stream.synchronize()
    print("streams", x.sum())


def shifted() -> None:
    shift = cupy.ElementwiseKernel("raw T x", "T y", "y = x[i + 1]", "shift")
    shift(cupy.ones(5), cupy.empty(5))


def libraries() -> None:
    for work in (
        lambda: cupy.ones((3, 3)) @ cupy.ones((3, 3)),
        lambda: cupy.fft.fft(cupy.ones(8)),
    ):
        try:
            print(work())
        except (ImportError, NotImplementedError) as refused:
            print(str(refused).partition(",")[0])


def drawn() -> None:
    """Equal seeds give equal numbers."""
    states = [cupy.random.RandomState(3) for _ in range(2)]
    first, second = ((s.rand(500), s.randn(501), s.randint(0, 10, 500), s.permutation(9)) for s in states)
    print(
        "drawn", all(bool((a == b).all()) for a, b in zip(first, second, strict=True)), sorted(first[3].tolist())
    )
    numbers, normal, integers, _ = first
    near = abs(numbers.mean() - 0.5) < 0.1 and abs(normal.mean()) < 0.2 and abs(normal.std() - 1) < 0.2
    print(bool(near), bool((numbers > 0).all() and (numbers <= 1).all()), int(integers.min()), int(integers.max()))
    generator, again = cupy.random.default_rng(5), cupy.random.Generator(cupy.random.Philox4x3210(5))
    scaled = generator.exponential(cupy.asarray([1.0, 2.0]))
    print(generator.random((2, 3)).shape, type(scaled) is cupy.ndarray, isinstance(again, cupy.random.Generator))


def ordered() -> None:
    values = numpy.random.default_rng(0).normal(0, 30, (7, 33))
    for dtype in (numpy.float32, numpy.int8, numpy.complex64, numpy.float16):
        host = values.astype(dtype)
        for axis in (0, 1):
            found, order = cupy.sort(cupy.asarray(host), axis=axis), cupy.argsort(cupy.asarray(host), axis=axis)
            assert (found.get() == numpy.sort(host, axis=axis)).all()
            assert (order.get() == numpy.argsort(host, axis=axis, kind="stable")).all()
    keys = numpy.array([[1, 2, 1, 2], [3, 1, 1, 2]])
    print(
        "ordered",
        cupy.lexsort(cupy.asarray(keys)),
        cupy.unique(cupy.asarray(keys)),
        cupy.median(cupy.asarray(keys)),
    )


WORK = {
    "raw": lambda: raw(ADD),
    "raw, one more": lambda: raw(ADD_ONE_MORE),
    "module": module,
    "generated": generated,
    "arrays": arrays,
    "streams": streams,
    "shifted": shifted,
    "drawn": drawn,
    "ordered": ordered,
    "libraries": libraries,
}
for each in sys.argv[1:]:
    WORK[each]()
