// CUDA's cooperative groups, with the barrier of a grid as a function that the cpu device has its own version of. On a
// GPU it does what CUDA's header does in place. Source of the workspace: cooperative_groups/details/driver_abi.h.
#pragma once

// memory and integer traits, the namespace with its version, and the qualifiers
#include <cooperative_groups/details/info.h>

#define _CG_DRIVER_API_H

extern "C" {
// The address of what a driver keeps for the barrier; 0 unless the launch is cooperative.
__device__ __noinline__ inline unsigned long long kcheck_grid_workspace() {
  unsigned int low, high;
  asm("mov.u32 %0, %%envreg1;" : "=r"(high));
  asm("mov.u32 %0, %%envreg2;" : "=r"(low));
  return (unsigned long long)high << 32 | low;
}

// Wait for all threads of the grid. The first block adds what flips the top bit when every other block has added 1.
__device__ __noinline__ inline void kcheck_grid_sync(unsigned int* arrived) {
  __syncthreads();
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
    unsigned int blocks = gridDim.x * gridDim.y * gridDim.z;
    bool is_first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
    __threadfence();
    unsigned int before = atomicAdd(arrived, is_first ? 0x80000000u - (blocks - 1) : 1u);
    while (((before ^ *(volatile unsigned int*)arrived) & 0x80000000u) == 0) {
    }
    __threadfence();
  }
  __syncthreads();
}
}

_CG_BEGIN_NAMESPACE

namespace details {
// A type of its own, so that CUDA's classes find the functions below.
struct grid_barrier {
  unsigned int arrived;
};

struct grid_workspace {
  unsigned int wsSize;
  grid_barrier barrier;
};

_CG_QUALIFIER grid_workspace* get_grid_workspace() {
  return reinterpret_cast<grid_workspace*>(kcheck_grid_workspace());
}

namespace grid {
_CG_STATIC_QUALIFIER void sync(grid_barrier* barrier) { kcheck_grid_sync(&barrier->arrived); }

// A barrier in two halves: all of it is in the second one.
_CG_STATIC_QUALIFIER unsigned int barrier_arrive(grid_barrier*) { return 0; }
_CG_STATIC_QUALIFIER void barrier_wait(unsigned int, grid_barrier* barrier) { sync(barrier); }
}  // namespace grid
}  // namespace details

_CG_END_NAMESPACE

#include_next <cooperative_groups.h>
