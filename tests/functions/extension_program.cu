#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <cub/block/block_reduce.cuh>
#include <cuda_fp16.h>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.device().is_cuda() && x.is_contiguous(), #x " must be on cuda")

constexpr int TILE = 16;
__constant__ float weights[3];

template <bool CHECKED>
__global__ void scale_kernel(const float* __restrict__ x, float* __restrict__ y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (!CHECKED || i < n) y[i] = a * x[i];
}

torch::Tensor scale(torch::Tensor x, double a = 2.0, bool checked = true) {
  CHECK_INPUT(x);
  const at::cuda::OptionalCUDAGuard guard(at::device_of(x));
  auto y = torch::empty_like(x);
  int n = x.numel(), blocks = (n + 255) / 256;
  auto stream = at::cuda::getCurrentCUDAStream();
  if (checked) scale_kernel<true><<<blocks, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), a, n);
  else scale_kernel<false><<<blocks, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), a, n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

__global__ void matmul_kernel(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[TILE][TILE], Bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
    int k = t * TILE;
    As[threadIdx.y][threadIdx.x] = row < M && k + threadIdx.x < K ? A[row * K + k + threadIdx.x] : 0.0f;
    Bs[threadIdx.y][threadIdx.x] = col < N && k + threadIdx.y < K ? B[(k + threadIdx.y) * N + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += As[threadIdx.y][i] * Bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = sum;
}

torch::Tensor matmul(torch::Tensor A, torch::Tensor B) {
  CHECK_INPUT(A);
  CHECK_INPUT(B);
  int M = A.size(0), K = A.size(1), N = B.size(1);
  auto C = torch::zeros({M, N}, A.options());
  dim3 block(TILE, TILE), grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
  matmul_kernel<<<grid, block>>>(A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), M, N, K);
  AT_CUDA_CHECK(cudaGetLastError());
  return C;
}

__inline__ __device__ float warp_max(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v = fmaxf(v, __shfl_down_sync(0xffffffff, v, offset));
  return v;
}

__inline__ __device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  return v;
}

__global__ void softmax_kernel(const float* x, float* y, int cols, bool synced) {
  extern __shared__ float shared[];
  const float* row = x + blockIdx.x * cols;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) most = fmaxf(most, row[i]);
  most = warp_max(most);
  if (lane == 0) shared[warp] = most;
  __syncthreads();
  most = shared[0];
  for (int w = 1; w < warps; ++w) most = fmaxf(most, shared[w]);
  if (synced) __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(row[i] - most);
  sum = warp_sum(sum);
  if (lane == 0) shared[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < warps; ++w) sum += shared[w];
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[blockIdx.x * cols + i] = expf(row[i] - most) / sum;
}

torch::Tensor softmax(torch::Tensor x, bool synced) {
  CHECK_INPUT(x);
  auto y = torch::empty(x.sizes(), x.options());
  softmax_kernel<<<x.size(0), 128, 4 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), synced);
  return y;
}

template <typename scalar_t>
__global__ void gelu_kernel(torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
                            torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> y) {
  const int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < x.size(1)) {
    float v = static_cast<float>(x[r][c]);
    y[r][c] = static_cast<scalar_t>(0.5f * v * (1.0f + erff(v * 0.70710678f)));
  }
}

torch::Tensor gelu(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
  auto y = torch::empty_like(x);
  const dim3 blocks((x.size(1) + 127) / 128, x.size(0));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "gelu", ([&] {
    gelu_kernel<scalar_t><<<blocks, 128>>>(x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
                                           y.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
  }));
  C10_CUDA_CHECK(cudaGetLastError());
  return y;
}

__global__ void add4_kernel(const float4* a, const float4* b, float4* c, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n4) {
    float4 u = a[i], v = b[i];
    c[i] = make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
  }
}

torch::Tensor add4(torch::Tensor a, torch::Tensor b) {
  auto c = torch::empty_like(a);
  int n4 = a.numel() / 4;
  add4_kernel<<<(n4 + 63) / 64, 64>>>(reinterpret_cast<const float4*>(a.data_ptr<float>()),
      reinterpret_cast<const float4*>(b.data_ptr<float>()), reinterpret_cast<float4*>(c.data_ptr<float>()), n4);
  cudaError_t error = cudaDeviceSynchronize();
  TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
  return c;
}

__global__ void sum_kernel(const float* x, float* total, int n) {
  typedef cub::BlockReduce<float, 128> Reduce;
  __shared__ typename Reduce::TempStorage storage;
  float mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i];
  float sum = Reduce(storage).Sum(mine);
  if (threadIdx.x == 0) atomicAdd(total, sum);
}

torch::Tensor sum(torch::Tensor x) {
  auto total = torch::zeros({1}, torch::TensorOptions().dtype(torch::kFloat32).device(x.device()));
  int blocks = std::min<int>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount, (x.numel() + 127) / 128);
  sum_kernel<<<blocks, 128, 0, c10::cuda::getCurrentCUDAStream().stream()>>>(x.data_ptr<float>(),
                                                                              total.data_ptr<float>(), x.numel());
  return total[0];
}

__global__ void smooth_kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  CUDA_KERNEL_ASSERT(n > 0);
  float left = i > 0 ? x[i - 1] : 0.0f, right = i + 1 < n ? x[i + 1] : 0.0f;
  y[i] = weights[0] * left + weights[1] * x[i] + weights[2] * right;
}

at::Tensor smooth(const at::Tensor& x) {
  const float host[3] = {0.25f, 0.5f, 0.25f};
  C10_CUDA_CHECK(cudaMemcpyToSymbol(weights, host, sizeof host));
  at::Tensor flat = x.contiguous().to(at::kFloat), y = at::empty_like(flat);
  smooth_kernel<<<(flat.numel() + 31) / 32, 32>>>(flat.const_data_ptr<float>(), y.mutable_data_ptr<float>(), flat.numel());
  return y;
}

struct Square : public torch::autograd::Function<Square> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto x = ctx->get_saved_variables()[0];
    TORCH_CHECK(grads[0].is_cuda() && x.is_cuda());
    return {scale((grads[0] * x).contiguous(), 2.0)};
  }
};
torch::Tensor square(torch::Tensor x) { return Square::apply(x); }

__global__ void last_kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[0] = x[i];
}

torch::Tensor last(torch::Tensor x) {
  auto y = torch::empty({1}, x.options());
  last_kernel<<<(x.numel() + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}

torch::Tensor too_large(torch::Tensor x) {
  scale_kernel<true><<<1, 2048>>>(x.data_ptr<float>(), x.data_ptr<float>(), 1.0f, 1);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return x;
}

TORCH_LIBRARY(kcheck_test, m) { m.def("smooth(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(kcheck_test, CUDA, m) { m.impl("smooth", &smooth); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scale", &scale, "y = a * x", py::arg("x"), py::arg("a") = 2.0, py::arg("checked") = true);
  m.def("matmul", &matmul);
  m.def("softmax", &softmax);
  m.def("gelu", &gelu);
  m.def("add4", &add4);
  m.def("sum", &sum);
  m.def("square", &square);
  m.def("last", &last);
  m.def("too_large", &too_large);
}
