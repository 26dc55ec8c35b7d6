// c10::cuda::CUDACachingAllocator, which extensions use for scratch memory. It caches nothing here: each allocation has
// its own bounds.
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>
#include <unordered_map>

namespace c10::cuda::CUDACachingAllocator {
namespace {

constexpr const char* NO_POOLS = "kcheck's cpu device has no memory pools";

struct Uncached final : CUDAAllocator {
  DataPtr allocate(size_t size) override { return GetAllocator(kCUDA)->allocate(size); }
  void copy_data(void* target, const void* source, size_t count) const override {
    default_copy_data(target, source, count);
  }
  DeleterFnPtr raw_deleter() const override { return &CUDACachingAllocator::raw_delete; }

  void* raw_alloc(size_t size) override {
    auto data = allocate(size);
    void* address = data.get();
    std::lock_guard<std::mutex> lock(mutex_);
    raw_[address] = std::move(data);
    return address;
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t) override { return raw_alloc(size); }
  void raw_delete(void* address) override {
    DataPtr freed;
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = raw_.find(address);
    if (found == raw_.end()) return;
    freed = std::move(found->second);
    raw_.erase(found);
  }

  void init(int) override {}
  bool initialized() override { return true; }
  double getMemoryFraction(DeviceIndex) override { return 1; }
  void setMemoryFraction(double, DeviceIndex) override {}
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) override { return {}; }
  void enable(bool) override {}
  bool isEnabled() const override { return false; }
  void cacheInfo(DeviceIndex, size_t* largest) override { *largest = 0; }
  void* getBaseAllocation(void* address, size_t* size) override {
    if (size) *size = 0;
    return address;
  }
  void recordStream(const DataPtr&, CUDAStream) override {}
  void emptyCache(MempoolId_t) override {}
  CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override { return {}; }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex) override {}
  SnapshotInfo snapshot(MempoolId_t, bool) override { return {}; }
  void beginAllocateToPool(DeviceIndex, MempoolId_t, std::function<bool(cudaStream_t)>) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, NO_POOLS);
  }
  void endAllocateToPool(DeviceIndex, MempoolId_t) override {}
  void releasePool(DeviceIndex, MempoolId_t) override {}
  ShareableHandle shareIpcHandle(void*) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "kcheck's cpu device does not share memory between processes");
  }
  std::shared_ptr<void> getIpcDevPtr(std::string) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "kcheck's cpu device does not share memory between processes");
  }
  void recordHistory(bool, CreateContextFn, size_t, RecordContext, bool, const std::vector<std::string>&) override {}
  void attachOutOfMemoryObserver(OutOfMemoryObserver) override {}
  void attachOomRejectionObserver(OomRejectionObserver) override {}
  void attachAllocatorTraceTracker(AllocatorTraceTracker) override {}
  void enablePeerAccess(DeviceIndex, DeviceIndex) override {}
  cudaError_t memcpyAsync(
      void* target, int, const void* source, int, size_t count, cudaStream_t stream, bool) override {
    return cudaMemcpyAsync(target, source, count, cudaMemcpyDefault, stream);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex, MempoolId_t) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, NO_POOLS);
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex, std::shared_ptr<AllocatorState>) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, NO_POOLS);
  }
  std::string name() override { return "kcheck"; }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, DataPtr> raw_;
};

Uncached uncached;

}  // namespace

std::atomic<CUDAAllocator*> allocator{&uncached};

}  // namespace c10::cuda::CUDACachingAllocator
