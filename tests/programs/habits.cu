// Errors of the host, one for each argument, and correct twins. Built with -g.
#include <cstdio>
#include <cstring>

__global__ void fill(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}
static bool has(char **argv, const char *mode) {
    while (*argv && strcmp(*argv, mode)) argv++;
    return *argv;
}
int main(int argc, char **argv) {
    int *d, *e, *more, host[200];
    cudaMalloc(&d, 400);
    cudaMalloc(&e, 400);
    if (has(argv, "leak")) cudaMallocManaged(&more, 1000);
    if (has(argv, "no leak")) { cudaMallocManaged(&more, 1000); cudaFree(more); }
    if (has(argv, "copy")) cudaMemcpy(d, host, 404, cudaMemcpyHostToDevice);
    if (has(argv, "set")) cudaMemset(d + 1, 0, 400);
    if (has(argv, "rows")) cudaMemcpy2D(d, 100, host, 80, 80, 5, cudaMemcpyHostToDevice);
    if (has(argv, "whole")) { cudaMemcpy(d, host, 400, cudaMemcpyHostToDevice); cudaMemset(d + 1, 0, 396); cudaMemcpy2D(d, 100, host, 80, 80, 4, cudaMemcpyHostToDevice); }
    if (has(argv, "launch")) fill<<<1, 2048>>>(d, 100);
    if (has(argv, "launch, read")) { fill<<<1, 2048>>>(d, 100); printf("%d\n", cudaGetLastError()); }
    if (has(argv, "ignored")) cudaMalloc(&more, 1ull << 50);
    if (has(argv, "used")) if (cudaMalloc(&more, 1ull << 50) != cudaSuccess) puts("less");
    cudaFree(e);
    if (has(argv, "twice")) cudaFree(e);
    if (has(argv, "after")) { fill<<<1, 100>>>(e, 100); cudaDeviceSynchronize(); }
    if (has(argv, "copy after")) cudaMemcpy(host, e, 400, cudaMemcpyDeviceToHost);
    if (has(argv, "inside")) cudaFree(d + 1);
    if (has(argv, "of the host")) cudaFree(host);
    cudaFree(d);
    return 0;
}
