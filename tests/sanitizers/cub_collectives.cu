// Collectives of CUB and cooperative groups, each in a kernel of 128 threads: int *x of 4,096 numbers, and int *y.
// They are correct, so no sanitizer may report an error.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void
#define STORAGE(T) __shared__ typename T::TempStorage storage
#define WARPS(T, n) __shared__ typename T::TempStorage storage[n]

constexpr int THREADS = 128;

template <typename T, int N> __device__ void load(const int *x, T (&v)[N])
{
    for (int i = 0; i < N; ++i)
        v[i] = x[N * threadIdx.x + i];
}

template <typename T, int N> __device__ void store(int *y, T (&v)[N])
{
    for (int i = 0; i < N; ++i)
        y[N * threadIdx.x + i] = v[i];
}

template <cub::BlockScanAlgorithm A> __device__ void scan(int *x, int *y)
{
    using Scan = cub::BlockScan<int, THREADS, A>;
    STORAGE(Scan);
    int v[2];
    load(x, v);
    Scan(storage).InclusiveSum(v, v);
    store(y, v);
}

KERNEL scan_by_warps(int *x, int *y) { scan<cub::BLOCK_SCAN_WARP_SCANS>(x, y); }
KERNEL scan_raking(int *x, int *y) { scan<cub::BLOCK_SCAN_RAKING>(x, y); }
KERNEL scan_raking_memoize(int *x, int *y) { scan<cub::BLOCK_SCAN_RAKING_MEMOIZE>(x, y); }

template <cub::BlockReduceAlgorithm A> __device__ void reduce(int *x, int *y)
{
    using Reduce = cub::BlockReduce<int, THREADS, A>;
    STORAGE(Reduce);
    int sum = Reduce(storage).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0)
        y[0] = sum;
}

KERNEL reduce_by_warps(int *x, int *y) { reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(x, y); }
KERNEL reduce_raking(int *x, int *y) { reduce<cub::BLOCK_REDUCE_RAKING>(x, y); }
KERNEL reduce_raking_commutative(int *x, int *y) { reduce<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(x, y); }

template <int LANES> __device__ void warp_scan(int *x, int *y)
{
    using Scan = cub::WarpScan<int, LANES>;
    WARPS(Scan, THREADS / LANES);
    int v = x[threadIdx.x];
    Scan(storage[threadIdx.x / LANES]).InclusiveSum(v, v);
    y[threadIdx.x] = v;
}

KERNEL warp_scan_32(int *x, int *y) { warp_scan<32>(x, y); }
KERNEL warp_scan_16(int *x, int *y) { warp_scan<16>(x, y); }

struct Three
{
    int a, b, c;
};

struct Sum
{
    __device__ Three operator()(const Three &x, const Three &y) const { return {x.a + y.a, x.b + y.b, x.c + y.c}; }
};

KERNEL warp_reduce_of_structs(int *x, int *y)
{
    using Reduce = cub::WarpReduce<Three>;
    WARPS(Reduce, THREADS / 32);
    Three sum = Reduce(storage[threadIdx.x / 32]).Reduce(Three{x[threadIdx.x], 1, 2}, Sum());
    if (threadIdx.x % 32 == 0)
        y[threadIdx.x / 32] = sum.a + sum.b + sum.c;
}

KERNEL radix_sort(int *x, int *y)
{
    using Sort = cub::BlockRadixSort<int, THREADS, 4>;
    STORAGE(Sort);
    int v[4];
    load(x, v);
    Sort(storage).Sort(v);
    store(y, v);
}

KERNEL radix_sort_of_pairs(int *x, int *y)
{
    using Sort = cub::BlockRadixSort<int, THREADS, 2, int>;
    STORAGE(Sort);
    int v[2], w[2] = {0, 1};
    load(x, v);
    Sort(storage).SortDescending(v, w);
    store(y, w);
}

KERNEL rank_by_matches(int *x, int *y)
{
    using Rank = cub::BlockRadixRankMatch<THREADS, 5, false>;
    STORAGE(Rank);
    unsigned keys[4];
    int ranks[4];
    load(x, keys);
    Rank(storage).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(0, 5));
    store(y, ranks);
}

template <cub::WarpMatchAlgorithm A> __device__ void rank_early(int *x, int *y)
{
    using Rank = cub::BlockRadixRankMatchEarlyCounts<THREADS, 5, false, cub::BLOCK_SCAN_WARP_SCANS, A>;
    STORAGE(Rank);
    unsigned keys[4];
    int ranks[4];
    load(x, keys);
    Rank(storage).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(0, 5));
    store(y, ranks);
}

KERNEL rank_by_atomics(int *x, int *y) { rank_early<cub::WARP_MATCH_ATOMIC_OR>(x, y); }
KERNEL rank_by_early_matches(int *x, int *y) { rank_early<cub::WARP_MATCH_ANY>(x, y); }

template <bool SLICES> __device__ void exchange(int *x, int *y)
{
    using Exchange = cub::BlockExchange<int, THREADS, 4, SLICES>;
    STORAGE(Exchange);
    int v[4];
    load(x, v);
    Exchange(storage).BlockedToStriped(v, v);
    __syncthreads();
    Exchange(storage).StripedToBlocked(v, v);
    __syncthreads();
    Exchange(storage).BlockedToWarpStriped(v, v);
    store(y, v);
}

KERNEL exchange_at_once(int *x, int *y) { exchange<false>(x, y); }
KERNEL exchange_in_slices(int *x, int *y) { exchange<true>(x, y); }

KERNEL warp_exchange(int *x, int *y)
{
    using Exchange = cub::WarpExchange<int, 4>;
    WARPS(Exchange, THREADS / 32);
    int v[4], warp = threadIdx.x / 32;
    load(x, v);
    Exchange(storage[warp]).BlockedToStriped(v, v);
    Exchange(storage[warp]).StripedToBlocked(v, v);
    store(y, v);
}

struct Less
{
    __device__ bool operator()(int a, int b) const { return a < b; }
};

KERNEL merge_sort(int *x, int *y)
{
    using Sort = cub::BlockMergeSort<int, THREADS, 4>;
    STORAGE(Sort);
    int v[4];
    load(x, v);
    Sort(storage).Sort(v, Less());
    store(y, v);
}

KERNEL warp_merge_sort(int *x, int *y)
{
    using Sort = cub::WarpMergeSort<int, 4, 16>;
    WARPS(Sort, THREADS / 16);
    int v[4];
    load(x, v);
    Sort(storage[threadIdx.x / 16]).Sort(v, Less());
    store(y, v);
}

template <cub::BlockHistogramAlgorithm A> __device__ void histogram(int *x, int *y)
{
    using Histogram = cub::BlockHistogram<unsigned char, THREADS, 4, 256, A>;
    STORAGE(Histogram);
    __shared__ unsigned counts[256];
    unsigned char v[4];
    load(x, v);
    Histogram(storage).Histogram(v, counts);
    __syncthreads();
    y[threadIdx.x] = counts[threadIdx.x];
}

KERNEL histogram_by_sorting(int *x, int *y) { histogram<cub::BLOCK_HISTO_SORT>(x, y); }
KERNEL histogram_by_atomics(int *x, int *y) { histogram<cub::BLOCK_HISTO_ATOMIC>(x, y); }

struct Differ
{
    __device__ bool operator()(int a, int b) const { return a != b; }
};

KERNEL heads(int *x, int *y)
{
    using Discontinuity = cub::BlockDiscontinuity<int, THREADS>;
    STORAGE(Discontinuity);
    int v[4], flags[4];
    load(x, v);
    Discontinuity(storage).FlagHeads(flags, v, Differ());
    store(y, flags);
}

struct Minus
{
    __device__ int operator()(int a, int b) const { return a - b; }
};

KERNEL differences(int *x, int *y)
{
    using Difference = cub::BlockAdjacentDifference<int, THREADS>;
    STORAGE(Difference);
    int v[4];
    load(x, v);
    Difference(storage).SubtractLeft(v, v, Minus());
    store(y, v);
}

KERNEL shifted(int *x, int *y)
{
    using Shuffle = cub::BlockShuffle<int, THREADS>;
    STORAGE(Shuffle);
    int next = 0;
    Shuffle(storage).Offset(x[threadIdx.x], next, 1);
    y[threadIdx.x] = next;
}

KERNEL transposing_load_and_store(int *x, int *y)
{
    using Load = cub::BlockLoad<int, THREADS, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<int, THREADS, 4, cub::BLOCK_STORE_TRANSPOSE>;
    __shared__ union {
        Load::TempStorage load;
        Store::TempStorage store;
    } storage;
    int v[4] = {0};
    Load(storage.load).Load(x, v, 500);
    __syncthreads();
    Store(storage.store).Store(y, v, 500);
}

KERNEL run_lengths(int *x, int *y)
{
    using Decode = cub::BlockRunLengthDecode<int, THREADS, 2, 4>;
    STORAGE(Decode);
    int v[2], items[4];
    unsigned lengths[2] = {2, 3}, total;
    load(x, v);
    Decode decode(storage, v, lengths, total);
    for (unsigned first = 0; first < total; first += 4 * THREADS) {
        decode.RunLengthDecode(items, first);
        __syncthreads();
        for (int i = 0; i < 4; ++i)
            if (first + 4 * threadIdx.x + i < total)
                y[first + 4 * threadIdx.x + i] = items[i];
    }
}

KERNEL tiles(int *x, int *y)
{
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto part = cg::tiled_partition<8>(tile);
    __shared__ int s[THREADS];
    s[threadIdx.x] = x[threadIdx.x];
    tile.sync();
    int v = s[threadIdx.x ^ 5];
    tile.sync();
    v = cg::reduce(part, v, cg::plus<int>());
    s[threadIdx.x] = cg::inclusive_scan(tile, v);
    part.sync();
    y[threadIdx.x] = s[threadIdx.x ^ 1] + cg::coalesced_threads().shfl(v, 0) + tile.match_any(v);
}
