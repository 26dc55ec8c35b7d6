// What kernels of PyTorch extensions use of its headers: packed accessors, and the names of 16-bit types.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}

namespace at {
using c10::BFloat16;
using c10::Half;

template <typename T> struct DefaultPtrTraits { typedef T* PtrType; };
template <typename T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };

// A view of the last axes of an accessor.
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class TensorAccessor {
 public:
  typedef typename PtrTraits<T>::PtrType PtrType;
  TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  index_t size(index_t axis) const { return sizes_[axis]; }
  index_t stride(index_t axis) const { return strides_[axis]; }
  T* data() const { return data_; }
  TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
    return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }

 private:
  PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
};

template <typename T, template <typename U> class PtrTraits, typename index_t>
class TensorAccessor<T, 1, PtrTraits, index_t> {
 public:
  typedef typename PtrTraits<T>::PtrType PtrType;
  TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  index_t size(index_t axis) const { return sizes_[axis]; }
  index_t stride(index_t axis) const { return strides_[axis]; }
  T* data() const { return data_; }
  T& operator[](index_t i) const { return data_[strides_[0] * i]; }

 private:
  PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
};

// data_ is public so that kcheck can read its type.
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class GenericPackedTensorAccessor {
 public:
  typedef typename PtrTraits<T>::PtrType PtrType;
  index_t size(index_t axis) const { return sizes_[axis]; }
  index_t stride(index_t axis) const { return strides_[axis]; }
  T* data() const { return data_; }
  TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
    return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }

  PtrType data_;
  index_t sizes_[N];
  index_t strides_[N];
};

template <typename T, template <typename U> class PtrTraits, typename index_t>
class GenericPackedTensorAccessor<T, 1, PtrTraits, index_t> {
 public:
  typedef typename PtrTraits<T>::PtrType PtrType;
  index_t size(index_t axis) const { return sizes_[axis]; }
  index_t stride(index_t axis) const { return strides_[axis]; }
  T* data() const { return data_; }
  T& operator[](index_t i) const { return data_[strides_[0] * i]; }

  PtrType data_;
  index_t sizes_[1];
  index_t strides_[1];
};

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, PtrTraits, index_t>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;
}

namespace torch {
using at::BFloat16;
using at::DefaultPtrTraits;
using at::GenericPackedTensorAccessor;
using at::Half;
using at::PackedTensorAccessor;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
using at::TensorAccessor;
}
