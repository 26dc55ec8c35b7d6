#include <cstdio>
extern __device__ int twice(int x);
__global__ void read_own(int *out);
__device__ static int own = 2;
__global__ void call(int *out) { out[0] = twice(21); out[2] = own; }
int main() {
    int *d, h[3];
    cudaMalloc(&d, sizeof h);
    call<<<1, 1>>>(d);
    read_own<<<1, 1>>>(d);
    cudaError_t error = cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s %d %d %d\n", cudaGetErrorName(error), h[0], h[1], h[2]);
    return 0;
}
