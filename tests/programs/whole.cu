#include <cstdio>
extern __device__ int twice(int x);
__global__ void read_own(int *out);
__device__ static int own = 2;
struct Shape { __device__ virtual int area(int scale) const = 0; };
struct Group : Shape {
    Shape *a, *b;
    __device__ Group(Shape *a, Shape *b) : a(a), b(b) {}
    __device__ int area(int scale) const override { return a->area(scale) + b->area(scale); }
};
__device__ Shape *make_square(int side);
__global__ void make(Shape **out) {  // a tree, so that a virtual function calls itself
    *out = new Group(new Group(make_square(1), make_square(2)), make_square(4));
}
__global__ void area(Shape *const *shape, int *out) { *out = (*shape)->area(2); }
__global__ void call(int *out) { out[0] = twice(21); out[2] = own; }
int main() {
    int *d, h[4];
    Shape **shape;
    cudaMalloc(&d, sizeof h);
    cudaMalloc(&shape, sizeof *shape);
    make<<<1, 1>>>(shape);
    area<<<1, 1>>>(shape, d + 3);
    call<<<1, 1>>>(d);
    read_own<<<1, 1>>>(d);
    cudaError_t error = cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s %d %d %d %d\n", cudaGetErrorName(error), h[0], h[1], h[2], h[3]);
    return 0;
}
