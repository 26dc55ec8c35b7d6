#include "tensors.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

extern "C" {
std::atomic<uint32_t> kcheck_torch_pending{0};  // whether there are changes to take
}

namespace kcheck {
namespace {

// The ranges of memory that kernels may access, and what of it the engine does not know yet.
class Ranges {
 public:
  int64_t add(void* address, size_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    added_[++last_] = {last_, address, size};
    kcheck_torch_pending = 1;
    return last_;
  }

  void remove(int64_t ticket) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (added_.erase(ticket)) return;  // the engine has never seen it
    removed_.push_back(ticket);
    kcheck_torch_pending = 1;
  }

  // Removed ranges come first: a new one may have the same memory.
  size_t take(Change* changes, size_t count) {
    std::lock_guard<std::mutex> lock(mutex_);
    size_t taken = 0;
    for (; taken < count && !removed_.empty(); removed_.pop_back()) changes[taken++] = {removed_.back(), nullptr, 0};
    for (; taken < count && !added_.empty(); added_.erase(added_.begin())) changes[taken++] = added_.begin()->second;
    kcheck_torch_pending = !removed_.empty() || !added_.empty();
    return taken;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<int64_t, Change> added_;
  std::vector<int64_t> removed_;
  int64_t last_ = 0;
};

Ranges& ranges() {
  static auto* all = new Ranges();  // never destroyed: tensors may be freed last
  return *all;
}

// What a storage on cuda owns.
struct Backing {
  c10::intrusive_ptr<c10::StorageImpl> host;
  int64_t ticket;
};

void free_backing(void* context) {
  auto* backing = static_cast<Backing*>(context);
  if (backing->ticket) ranges().remove(backing->ticket);
  delete backing;
}

c10::DataPtr data_of(c10::intrusive_ptr<c10::StorageImpl> host) {
  void* address = host->mutable_data();
  int64_t ticket = host->nbytes() ? ranges().add(address, host->nbytes()) : 0;
  return {address, new Backing{std::move(host), ticket}, &free_backing, DEVICE};
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    return data_of(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), size, c10::GetCPUAllocator(), /*resizable=*/true));
  }
  void copy_data(void* target, const void* source, size_t count) const override {
    default_copy_data(target, source, count);
  }
};

DeviceAllocator allocator;

Backing* backing_of(const c10::Storage& storage) {
  const auto& data = storage.data_ptr();
  return data.get_deleter() == &free_backing ? static_cast<Backing*>(data.get_context()) : nullptr;
}

at::Tensor like(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  impl->_set_conj(tensor.is_conj());
  impl->_set_neg(tensor.is_neg());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return made;
}

}  // namespace

size_t take_changes(Change* changes, size_t count) { return ranges().take(changes, count); }

void register_allocator() { c10::SetAllocator(c10::kCUDA, &allocator, /*priority=*/UINT8_MAX); }

c10::intrusive_ptr<c10::StorageImpl> Sides::host_of(const c10::Storage& storage) {
  for (const auto& [device, host] : storages_)
    if (device.is_alias_of(storage)) return host;
  c10::intrusive_ptr<c10::StorageImpl> host;
  if (auto* backing = backing_of(storage)) {
    host = backing->host;
  } else {  // memory that a program has allocated itself and given to PyTorch
    c10::DataPtr data(storage.mutable_data(), c10::kCPU);
    host = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), storage.nbytes(), std::move(data), nullptr, /*resizable=*/false);
  }
  storages_.emplace_back(storage, host);
  return host;
}

c10::Storage Sides::device_of(const c10::Storage& host) {
  for (const auto& [device, known] : storages_)
    if (known.get() == host.unsafeGetStorageImpl()) return device;
  auto kept = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(host.unsafeGetStorageImpl());
  size_t size = kept->nbytes();
  c10::Storage made(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), size, data_of(kept), &allocator, /*resizable=*/true));
  storages_.emplace_back(made, std::move(kept));
  return made;
}

at::Tensor Sides::host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided && !tensor.is_quantized(),
      "kcheck's cpu device has no ", tensor.layout(), " tensors on cuda");
  for (const auto& [device, known] : tensors_)
    if (device.is_same(tensor)) return known;
  auto made = like(tensor, c10::Storage(host_of(tensor.storage())), c10::DispatchKey::CPU);
  tensors_.emplace_back(tensor, made);
  return made;
}

c10::Storage Sides::host(const c10::Storage& storage) {
  return storage.device().is_cuda() ? c10::Storage(host_of(storage)) : storage;
}

at::Tensor Sides::device(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu()) return tensor;
  for (const auto& [device, known] : tensors_)
    if (known.is_same(tensor)) return device;
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided && !tensor.is_quantized(),
      "kcheck's cpu device has no ", tensor.layout(), " tensors on cuda");
  return like(tensor, device_of(tensor.storage()), c10::DispatchKey::CUDA);
}

void Sides::update() {
  for (size_t n = 0; n < storages_.size(); n++) {
    auto* device = storages_[n].first.unsafeGetStorageImpl();
    auto& host = storages_[n].second;
    if (device->data() == host->data() && device->nbytes() == host->nbytes()) continue;
    device->set_data_ptr(c10::DataPtr(nullptr, DEVICE));  // release the old range first: the new one may overlap it
    device->set_data_ptr_noswap(data_of(host));
    device->set_nbytes(host->nbytes());
  }
  for (const auto& [device, host] : tensors_) {
    auto* impl = device.unsafeGetTensorImpl();
    auto storage = device_of(host.storage());
    if (!storage.is_alias_of(device.storage())) impl->set_storage_keep_dtype(std::move(storage));
    if (device.sizes() != host.sizes() || device.strides() != host.strides() ||
        device.storage_offset() != host.storage_offset())
      impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  }
}

}  // namespace kcheck
