// Linked with whole.cu by -rdc=true: the function is in another file.
__device__ int twice(int x) { return 2 * x; }
__device__ static int own = 1;
__global__ void read_own(int *out) { out[1] = own; }
