
extern "C" __global__ void transpose_tiles(const float* x, float* y, int m, int n) {
  __shared__ float tile[32][33];
  int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) if (j < n && i + k < m) tile[threadIdx.y + k][threadIdx.x] = x[(long long)(i + k) * n + j];
  __syncthreads();
  int r = blockIdx.y * 32 + threadIdx.x, c = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) if (r < m && c + k < n) y[(long long)(c + k) * m + r] = tile[threadIdx.x][threadIdx.y + k];
}