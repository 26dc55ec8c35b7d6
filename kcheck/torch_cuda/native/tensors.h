// Tensors on cuda, whose memory is host memory, and the tensors on the CPU that share it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace kcheck {

inline const c10::Device DEVICE(c10::kCUDA, 0);

// A range of host memory that kernels may access from now on, or, if `address` is null, no longer.
struct Change {
  int64_t ticket;
  void* address;
  size_t size;
};

// The changes since the last call, at most `count` of them. The engine asks for them before it looks at its memory: it is
// written in Python, which must not run wherever a tensor is freed.
size_t take_changes(Change* changes, size_t count);

void register_allocator();

// The tensors of one call, on both sides. A storage on cuda owns the storage on the CPU that has its memory, so that a
// function of PyTorch for the CPU may resize it.
class Sides {
 public:
  // A tensor on the CPU that shares the memory, sizes and strides of one on cuda; any other tensor as it is.
  at::Tensor host(const at::Tensor& tensor);
  c10::Storage host(const c10::Storage& storage);
  // A tensor on cuda for a result on the CPU: an argument of the call, a view of one, or a new one.
  at::Tensor device(const at::Tensor& tensor);
  // Give the arguments on cuda the sizes, strides and memory that their twins on the CPU have after the call.
  void update();

 private:
  c10::intrusive_ptr<c10::StorageImpl> host_of(const c10::Storage& storage);
  c10::Storage device_of(const c10::Storage& host);

  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;  // on cuda, on the CPU
  std::vector<std::pair<c10::Storage, c10::intrusive_ptr<c10::StorageImpl>>> storages_;
};

}  // namespace kcheck
