// Kernels with a race that only looks ordered, and twins. A line marked `// race` is one side of an error, one marked
// `// warn` of a warning; a kernel without a mark is clean. All get three arrays: int *x, int *y, int *lock. Those
// whose name ends in _blocks run as two blocks of 64 threads, the others as one.

__device__ int plain_of(volatile int *p) { return *p; }

// --- shuffles, votes and matches

extern "C" __global__ void shuffle_between(int *x, int *y, int *lock)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];  // race
    int v = __shfl_xor_sync(0xffffffffu, t, 1);
    y[t] = s[t ^ 3] + v;  // race
}

extern "C" __global__ void vote_between(int *x, int *y, int *lock)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t] + t;  // race
    bool some = __any_sync(0xffffffffu, t > 9);
    y[t] = some ? s[t ^ 3] : 0;  // race
}

extern "C" __global__ void match_between(int *x, int *y, int *lock)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t] + t;  // race
    unsigned same = __match_any_sync(0xffffffffu, t & 1);
    y[t] = s[t ^ 3] + same;  // race
}

extern "C" __global__ void ballot_of_a_part_between(int *x, int *y, int *lock)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t < 16) {
        s[t] = x[t] + t;  // race
        unsigned some = __ballot_sync(0xffffu, t > 9);
        y[t] = s[t ^ 3] + some;  // race
    }
}

extern "C" __global__ void read_before_the_shuffle(int *x, int *y, int *lock)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t] + t;
    __syncwarp();
    int v = s[t ^ 3];  // warn
    v = __shfl_xor_sync(0xffffffffu, v, 1);
    s[t] = v;  // warn
    y[t] = v;
}

extern "C" __global__ void warp_barrier_after_the_vote(int *x, int *y, int *lock)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t] + t;
    bool some = __any_sync(0xffffffffu, t > 9);
    __syncwarp();
    y[t] = some ? s[t ^ 3] : 0;
}

extern "C" __global__ void shuffle_of_values(int *x, int *y, int *lock)
{
    int v = x[threadIdx.x];
    for (int step = 16; step; step /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    y[threadIdx.x] = v;
}

// --- volatile

extern "C" __global__ void volatile_warp_sum(int *x, int *y, int *lock)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t] + t;
    __syncthreads();
    if (t < 32) {
        volatile int *v = s;
        v[t] += v[t + 32];  // race
        v[t] += v[t + 16];  // race
        v[t] += v[t + 8];  // race
    }
    __syncthreads();
    y[t] = s[0];
}

extern "C" __global__ void volatile_warp_sum_with_barriers(int *x, int *y, int *lock)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t] + t;
    __syncthreads();
    if (t < 32) {
        volatile int *v = s;
        int sum = v[t] + v[t + 32];
        __syncwarp();
        v[t] = sum;
        __syncwarp();
        sum += v[t ^ 16];
        __syncwarp();
        v[t] = sum;
    }
    __syncthreads();
    y[t] = s[0];
}

extern "C" __global__ void volatile_flag_in_shared(int *x, int *y, int *lock)
{
    __shared__ int ready;
    int t = threadIdx.x;
    volatile int *flag = &ready;
    if (t == 0)
        *flag = 0;
    __syncthreads();
    if (t == 63)
        *flag = 1;
    while (*flag == 0)
        ;
    y[t] = 1;
}

extern "C" __global__ void volatile_in_global_blocks(int *x, int *y, int *lock)
{
    volatile int *v = y;
    if (threadIdx.x == 0) {
        v[blockIdx.x] = blockIdx.x + 7;  // warn
        x[blockIdx.x] = v[1 - blockIdx.x];  // warn
    }
}

extern "C" __global__ void volatile_flag_in_global_blocks(int *x, int *y, int *lock)
{
    volatile int *flag = lock;
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
            y[0] = 7;
            __threadfence();
            *flag = 1;
        } else {
            while (*flag == 0)
                ;
            __threadfence();
            x[0] = y[0];
        }
    }
}

// --- scopes and locks

extern "C" __global__ void atomic_of_a_block_blocks(int *x, int *y, int *lock)
{
    atomicAdd_block(&y[0], 1);  // race
}

extern "C" __global__ void atomic_of_a_block_beside_others_blocks(int *x, int *y, int *lock)
{
    if (blockIdx.x == 0)
        atomicAdd(&y[0], 1);  // race
    else
        atomicAdd_block(&y[0], 1);  // race
}

extern "C" __global__ void atomic_of_a_block_on_its_own_word_blocks(int *x, int *y, int *lock)
{
    atomicAdd_block(&y[blockIdx.x], 1);
}

extern "C" __global__ void lock_with_fences_blocks(int *x, int *y, int *lock)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence();
        y[0] += blockIdx.x + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}

extern "C" __global__ void lock_with_a_fence_of_the_block_blocks(int *x, int *y, int *lock)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence();
        y[0] += blockIdx.x + 1;  // race
        __threadfence_block();
        atomicExch(lock, 0);
    }
}

extern "C" __global__ void lock_without_a_fence_after_it_blocks(int *x, int *y, int *lock)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        y[0] += blockIdx.x + 1;  // race
        __threadfence();
        atomicExch(lock, 0);
    }
}

extern "C" __global__ void lock_released_for_the_block_blocks(int *x, int *y, int *lock)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)  // race
            ;
        __threadfence();
        y[0] += blockIdx.x + 1;  // race
        __threadfence();
        atomicExch_block(lock, 0);  // race
    }
}

extern "C" __global__ void last_block_without_a_lock_blocks(int *x, int *y, int *lock)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        y[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        last = atomicAdd(lock, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x < 2)
        x[threadIdx.x] = y[threadIdx.x];
}

// --- the guess of a compare-and-swap

extern "C" __global__ void guess_of_a_swap_blocks(int *x, int *y, int *lock)
{
    int old = *y, assumed;
    do {
        assumed = old;
        old = atomicCAS(y, assumed, max(assumed, x[threadIdx.x]) + 1);
    } while (old != assumed);
}

extern "C" __global__ void guess_in_the_loop_blocks(int *x, int *y, int *lock)
{
    int old;
    do {
        old = *y;
    } while (atomicCAS(y, old, old * 3 + x[threadIdx.x]) != old);
}

extern "C" __global__ void guess_of_another_word_blocks(int *x, int *y, int *lock)
{
    int old = y[1], assumed;  // race
    do {
        assumed = old;
        old = atomicCAS(y, assumed, max(assumed, x[threadIdx.x]) + 1);
    } while (old != assumed);
    atomicAdd(y + 1, old);  // race
}

extern "C" __global__ void guess_of_a_plain_word_blocks(int *x, int *y, int *lock)
{
    int old = *y, assumed;  // race
    do {
        assumed = old;
        old = atomicCAS(y, assumed, max(assumed, x[threadIdx.x]) + 1);  // race
    } while (old != assumed);
    if (threadIdx.x == 63 && blockIdx.x == 1) {
        *y = 0;  // race
    }
}

extern "C" __global__ void swap_once_blocks(int *x, int *y, int *lock)
{
    int old = *y;  // race
    atomicCAS(y, old, old + x[threadIdx.x] + 1);  // race
}

extern "C" __global__ void first_swap_before_the_loop_blocks(int *x, int *y, int *lock)
{
    for (int i = threadIdx.x; i < 8; i += 4) {
        int guess = __ldcg(&y[i]);
        int old = atomicCAS(&y[i], guess, guess * 3 + x[i]);
        while (old != guess) {
            guess = old;
            old = atomicCAS(&y[i], guess, guess * 3 + x[i]);
        }
    }
}

extern "C" __global__ void swap_once_in_a_loop_blocks(int *x, int *y, int *lock)
{
    for (int i = threadIdx.x; i < 8; i += 4) {
        int guess = y[i];  // race
        atomicCAS(&y[i], guess, guess * 3 + x[i]);  // race
    }
}
