// What the CUDA tests of GPUVerify take for granted, as plain code: its conditions and a few types.
#pragma once

#include <stddef.h>

typedef unsigned int uint;

// A condition that does not hold is a write outside of this word, which memcheck finds.
__device__ int gpuverify_conditions[1];

__device__ __forceinline__ void gpuverify_check(bool holds) {
  if (!holds) asm volatile("st.global.u32 [%0+4096], %1;" ::"l"(gpuverify_conditions), "r"(1) : "memory");
}

// Only executions in which the condition holds count: otherwise, the thread ends.
__device__ __forceinline__ void gpuverify_assume(bool holds) {
  if (!holds) asm volatile("exit;");
}

// Shared memory that a kernel only writes: the compiler must not remove the accesses.
__device__ __forceinline__ void gpuverify_keep(const volatile void *variable) {
  asm volatile("" ::"l"(variable) : "memory");
}

// What a function without a body returns: anything, and something else in each call.
__device__ volatile unsigned long long gpuverify_any[1];

template <class T>
__device__ __forceinline__ T gpuverify_anything() {
  return (T)gpuverify_any[0];
}

#define __assert(...) gpuverify_check(__VA_ARGS__)
#define __assume(...) gpuverify_assume(__VA_ARGS__)
#define __requires(...) gpuverify_check(__VA_ARGS__)
#define __requires_of_kernel(...) gpuverify_assume(__VA_ARGS__)
#define __implies(a, b) (!(a) || (b))
#define __enabled() true
#define __builtin_memcpy(...) memcpy(__VA_ARGS__)
#define __builtin_memset(...) memset(__VA_ARGS__)
#define __all(...) (__VA_ARGS__)

// Hints for the proof: the kernel is right or wrong without them.
#define __invariant(...) ((void)0)
#define __global_invariant(...) ((void)0)
#define __ensures(...) ((void)0)
#define __requires_fresh_array(...) ((void)0)

// Random numbers: what matters is which words of the state a call reads and writes.
struct curandStateXORWOW {
  unsigned int word;
};
typedef curandStateXORWOW curandState;
typedef curandStateXORWOW curandState_t;

// One state for a block: each thread has its own word, up to 256 threads.
struct curandStateMtgp32 {
  unsigned int words[256];
};
typedef curandStateMtgp32 curandStateMtgp32_t;

__device__ __forceinline__ unsigned int curand(curandState *state) {
  state->word = state->word * 1664525u + 1013904223u;
  return state->word;
}

__device__ __forceinline__ unsigned int curand(curandStateMtgp32 *state) {
  unsigned int *word = &state->words[(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 256];
  *word = *word * 1664525u + 1013904223u;
  return *word;
}

template <class State>
__device__ __forceinline__ float curand_uniform(State *state) {
  return curand(state) * 2.3283064e-10f;
}

__device__ __forceinline__ void curand_init(unsigned long long seed, unsigned long long sequence,
                                            unsigned long long offset, curandState *state) {
  state->word = (unsigned int)(seed + sequence + offset);
}
