// One program for many tests: argv[1] says which. Errors of the API are printed, not hidden.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__constant__ int factor;
__managed__ int total;
__device__ int offset = 5;

__global__ void fill(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}
__global__ void stray(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = i;  // the twin of fill
}
template <typename T> __global__ void scale(T *out) {
    out[threadIdx.x] = out[threadIdx.x] * factor + offset;
    if (threadIdx.x == 0) total = 42;
}
__global__ void greet() { printf("thread %d\n", threadIdx.x); }
__global__ void spin(volatile int *out) { while (!out[0]) out[1] += 1; }
__global__ void reverse(int *out) {
    extern __shared__ int part[];
    part[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}
__global__ void together(int *out) {
    auto grid = cooperative_groups::this_grid();
    out[grid.thread_rank()] = 1;
    grid.sync();
    if (grid.thread_rank() == 0) for (int i = 1; i < grid.size(); i++) out[0] += out[i];
}

__global__ void together_but_one(int *out) {
    auto grid = cooperative_groups::this_grid();
    if (blockIdx.x == 2) return;  // the twin of together
    grid.sync();
    out[grid.thread_rank()] = 1;
}

static const char *last() { return cudaGetErrorName(cudaGetLastError()); }
static int sum(const int *device, int n) {
    int *host = (int *)malloc(n * sizeof(int)), s = 0;
    cudaMemcpy(host, device, n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) s += host[i];
    free(host);
    return s;
}
static void *in_thread(void *) {
    int *d;
    cudaMalloc(&d, 400);
    fill<<<1, 128>>>(d, 100);
    return (void *)(long)sum(d, 100);
}
static void *spins(void *memory) {
    cudaMemset(memory, 0, 400);
    spin<<<1, 1>>>((int *)memory);
    return 0;
}
static void called(void *data) { *(int *)data = 7; }

int main(int argc, char **argv) {
    const char *mode = argv[1];
    int n = 100, *d, *h;
    if (!strcmp(mode, "nothing")) return puts("no CUDA"), 0;
    if (!strcmp(mode, "fork-first")) {
        if (fork() == 0) { cudaMalloc(&d, 400); fill<<<1, 128>>>(d, n); _exit(sum(d, n) == 4950 ? 7 : 1); }
        int status;
        wait(&status);
        printf("child %d\n", WEXITSTATUS(status));
    }
    printf("malloc %s\n", cudaGetErrorName(cudaMalloc(&d, n * sizeof(int))));
    if (!strcmp(mode, "fill")) { fill<<<1, 128>>>(d, n); printf("sum %d\n", sum(d, n)); return 3; }
    if (!strcmp(mode, "stray")) { stray<<<1, 128>>>(d, n); printf("sync %s\n", cudaGetErrorName(cudaDeviceSynchronize())); }
    if (!strcmp(mode, "symbols")) {
        int three = 3;
        fill<<<1, 128>>>(d, n);
        cudaMemcpyToSymbol(factor, &three, sizeof three);
        scale<<<1, 100>>>(d);
        cudaDeviceSynchronize();
        printf("sum %d total %d\n", sum(d, n), total);
    }
    if (!strcmp(mode, "printf")) { printf("before\n"); greet<<<1, 2>>>(); cudaDeviceSynchronize(); printf("after\n"); }
    if (!strcmp(mode, "shared")) { fill<<<1, 100>>>(d, n); reverse<<<1, 100, 400>>>(d); int x; cudaMemcpy(&x, d, 4, cudaMemcpyDefault); printf("first %d\n", x); }
    if (!strcmp(mode, "cooperative")) {
        void *args[] = {&d};
        printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void *)together, 4, 16, args, 0, 0)));
        int x;
        cudaMemcpy(&x, d, 4, cudaMemcpyDeviceToHost);
        printf("blocks met %d\n", x);
    }
    if (!strcmp(mode, "cooperative-exit")) {
        void *args[] = {&d};
        printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void *)together_but_one, 4, 16, args, 0, 0)));
    }
    if (!strcmp(mode, "graph")) {
        cudaStream_t s;
        cudaGraph_t g;
        cudaGraphExec_t e;
        int got = 0;
        cudaStreamCreate(&s);
        cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
        fill<<<1, 128, 0, s>>>(d, n);
        reverse<<<1, 100, 400, s>>>(d);
        cudaLaunchHostFunc(s, called, &got);
        cudaStreamEndCapture(s, &g);
        int before = sum(d, n) == 4950;
        cudaGraphInstantiate(&e, g, 0);
        cudaGraphLaunch(e, s);
        cudaStreamSynchronize(s);
        printf("before %d after %d host %d\n", before, sum(d, n), got);
    }
    if (!strcmp(mode, "graph-memory")) {  // a captured event is gone, and the graph's memory is freed outside of it
        cudaStream_t s;
        cudaEvent_t event;
        cudaGraph_t g;
        cudaGraphExec_t e;
        int *own;
        cudaStreamCreate(&s);
        cudaEventCreate(&event);
        cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
        cudaMallocAsync(&own, 400, s);
        fill<<<1, 128, 0, s>>>(own, n);
        cudaEventRecord(event, s);
        cudaStreamEndCapture(s, &g);
        cudaEventDestroy(event);
        cudaGraphInstantiate(&e, g, 0);
        for (int k = 0; k < 2; k++) {
            printf("%s ", cudaGetErrorName(cudaGraphLaunch(e, s)));
            printf("%d\n", sum(own, n));
            cudaFreeAsync(own, s);
        }
    }
    if (!strcmp(mode, "memory")) {
        int *m, *p;
        cudaMallocManaged(&m, 400);
        cudaHostAlloc(&p, 400, cudaHostAllocMapped);
        h = (int *)malloc(40000);
        cudaHostRegister(h, 40000, 0);
        fill<<<1, 128>>>(m, n); fill<<<1, 128>>>(p, n); fill<<<1, 128>>>(h, n);
        cudaDeviceSynchronize();
        printf("%d %d %d\n", m[99], p[99], h[99]);
        size_t pitch;
        char *box, out[2][3] = {"", ""}, in[2][3] = {{1, 2, 3}, {4, 5, 6}};
        cudaMallocPitch(&box, &pitch, 3, 2);
        cudaMemcpy2D(box, pitch, in, 3, 3, 2, cudaMemcpyHostToDevice);
        cudaMemcpy2D(out, 3, box, pitch, 3, 2, cudaMemcpyDeviceToHost);
        printf("%d %d\n", out[0][2], out[1][2]);
    }
    if (!strcmp(mode, "errors")) {
        printf("%s\n", cudaGetErrorName(cudaMemcpy(d, &n, 4000, cudaMemcpyHostToDevice)));
        printf("%s %s\n", last(), last());
        fill<<<1, 4096>>>(d, n);
        printf("%s\n", last());
        cudaFree(d);
        printf("%s\n", cudaGetErrorName(cudaFree(d)));
    }
    if (!strcmp(mode, "thread")) { pthread_t t; void *r; pthread_create(&t, 0, in_thread, 0); pthread_join(t, &r); printf("thread %ld\n", (long)r); }
    if (!strcmp(mode, "fork")) {
        if (fork() == 0) _exit(cudaMalloc(&d, 4) == cudaErrorInitializationError ? 9 : 1);
        int status;
        wait(&status);
        fill<<<1, 128>>>(d, n);
        printf("child %d sum %d\n", WEXITSTATUS(status), sum(d, n));
    }
    if (!strcmp(mode, "exec")) { fflush(stdout); execl(argv[0], argv[0], "fill", (char *)0); }
    if (!strcmp(mode, "wait")) for (fflush(stdout); !cudaDeviceSynchronize();) usleep(20000);
    if (!strncmp(mode, "long", 4)) {  // a kernel that does not end, while the program does something else
        pthread_t t;
        pthread_create(&t, 0, spins, d);
        usleep(500000);
        fflush(stdout);
        if (!strcmp(mode, "long, forks") && syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) { pause(); _exit(0); }  // handlers of fork do not run
        if (!strcmp(mode, "long, execs")) execl(argv[0], argv[0], "fill", (char *)0);
        if (!strcmp(mode, "long, leaves")) _exit(5);
        puts("waits");
        fflush(stdout);
        pthread_join(t, 0);
    }
    if (!strcmp(mode, "crash")) raise(SIGSEGV);
    if (!strcmp(mode, "properties")) { cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); printf("%s %d.%d %d\n", p.name, p.major, p.minor, p.maxThreadsPerBlock); }
    return 0;
}
