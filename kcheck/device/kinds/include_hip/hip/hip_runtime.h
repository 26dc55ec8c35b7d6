// HIP for NVRTC: what its language calls otherwise than CUDA C++ does. Wavefronts have 32 lanes.
// Source: HIP C++ language extensions, in AMD's HIP documentation.
#pragma once

#define __HIP__ 1
#define __HIPCC__ 1
#define __HIPCC_RTC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define __HIP_PLATFORM_NVIDIA__ 1

#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, var) extern __shared__ type var[];
#define HIP_WARP_SIZE 32

// Wavefront functions without a mask: of the lanes that are active.
__device__ inline unsigned int __lane_id() {
  unsigned int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
// Names, not macros with arguments: headers of CUDA declare some of these.
#define __ballot __hip_ballot
#define __any __hip_any
#define __all __hip_all
__device__ __forceinline__ unsigned long long __hip_ballot(int predicate) {
  return __ballot_sync(__activemask(), predicate);
}
__device__ __forceinline__ int __hip_any(int predicate) { return __any_sync(__activemask(), predicate); }
__device__ __forceinline__ int __hip_all(int predicate) { return __all_sync(__activemask(), predicate); }
template <class T>
__device__ __forceinline__ T __shfl(T value, int lane, int width = 32) {
  return __shfl_sync(__activemask(), value, lane, width);
}
template <class T>
__device__ __forceinline__ T __shfl_up(T value, unsigned int distance, int width = 32) {
  return __shfl_up_sync(__activemask(), value, distance, width);
}
template <class T>
__device__ __forceinline__ T __shfl_down(T value, unsigned int distance, int width = 32) {
  return __shfl_down_sync(__activemask(), value, distance, width);
}
template <class T>
__device__ __forceinline__ T __shfl_xor(T value, int bits, int width = 32) {
  return __shfl_xor_sync(__activemask(), value, bits, width);
}

// Atomics whose result is not used, and those of doubles and floats that AMD names apart.
template <class T>
__device__ inline void atomicAddNoRet(T* address, T value) {
  atomicAdd(address, value);
}
template <class T>
__device__ inline T unsafeAtomicAdd(T* address, T value) {
  return atomicAdd(address, value);
}
template <class T>
__device__ inline T safeAtomicAdd(T* address, T value) {
  return atomicAdd(address, value);
}
