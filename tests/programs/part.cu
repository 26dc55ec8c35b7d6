// Linked with whole.cu by -rdc=true: the functions are in another file.
__device__ int twice(int x) { return 2 * x; }
__device__ static int own = 1;
struct Shape { __device__ virtual int area(int scale) const = 0; };
struct Square : Shape {
    int side;
    __device__ Square(int side) : side(side) {}
    __device__ int area(int scale) const override { return scale * side * side; }
};
__device__ Shape *make_square(int side) { return new Square(side); }
__global__ void read_own(int *out) { out[1] = own; }
