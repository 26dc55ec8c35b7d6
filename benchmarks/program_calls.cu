// Times calls of the CUDA API in a program under kcheck exec: microseconds each, in the fastest round.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

__global__ void nothing() {}
__global__ void one(int *out) { out[threadIdx.x] = 1; }

template <typename F> static void measure(const char *name, F call) {
    const int rounds = 21, calls = 200;
    std::vector<double> each;
    for (int round = 0; round < rounds; round++) {
        auto begin = std::chrono::steady_clock::now();
        for (int n = 0; n < calls; n++) call();
        cudaDeviceSynchronize();
        each.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls);
    }
    std::sort(each.begin(), each.end());
    printf("%s\t%.1f\n", name, each[0]);
}

int main() {
    int *memory, host[64] = {0};
    cudaMalloc(&memory, sizeof host);
    measure("an empty launch", [] { nothing<<<1, 32>>>(); });
    measure("a launch of 64 threads that store", [=] { one<<<1, 64>>>(memory); });
    measure("cudaDeviceSynchronize", [] { cudaDeviceSynchronize(); });
    measure("cudaMalloc and cudaFree, 1 KiB", [] { int *p; cudaMalloc(&p, 1024); cudaFree(p); });
    measure("cudaMemcpy, 256 bytes to the device", [&] { cudaMemcpy(memory, host, sizeof host, cudaMemcpyHostToDevice); });
    measure("cudaMemset, 256 bytes", [=] { cudaMemset(memory, 0, 256); });
    measure("cudaGetLastError", [] { cudaGetLastError(); });
    return cudaDeviceSynchronize() != cudaSuccess;
}
