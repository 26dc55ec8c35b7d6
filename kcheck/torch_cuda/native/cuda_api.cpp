// What extensions use of libc10_cuda and libtorch_cuda, which PyTorch's build for the CPU does not have.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <mutex>
#include <string>

extern "C" {
// Of libkcheck_torch.so: the current stream of this thread.
int64_t kcheck_torch_stream();
void kcheck_torch_set_stream(int64_t stream);
}

namespace c10::cuda {
namespace {

const Device DEVICE(c10::kCUDA, 0);

// PyTorch numbers the streams of its pools. Here the number of a stream is its handle.
CUDAStream stream_of(StreamId id) { return CUDAStream(CUDAStream::UNCHECKED, Stream(Stream::UNSAFE, DEVICE, id)); }

void check_device(DeviceIndex device) {
  if (device > 0) C10_CUDA_CHECK(cudaErrorInvalidDevice);
}

}  // namespace

DeviceIndex device_count() noexcept { return 1; }
DeviceIndex device_count_ensure_non_zero() { return 1; }
DeviceIndex current_device() { return 0; }
void set_device(DeviceIndex device, const bool) { check_device(device); }
void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
void warn_or_error_on_sync() {}
cudaError_t GetDeviceCount(int* count) { return cudaGetDeviceCount(count); }
cudaError_t GetDevice(DeviceIndex* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t SetDevice(DeviceIndex device, const bool) { return cudaSetDevice(device); }
cudaError_t MaybeSetDevice(DeviceIndex device) { return cudaSetDevice(device); }
DeviceIndex ExchangeDevice(DeviceIndex device) {
  check_device(device);
  return 0;
}
DeviceIndex MaybeExchangeDevice(DeviceIndex device) { return ExchangeDevice(device); }
void SetTargetDevice() {}
bool hasPrimaryContext(DeviceIndex) { return true; }
std::optional<DeviceIndex> getDeviceIndexWithPrimaryContext() { return 0; }

std::string get_cuda_error_help(cudaError_t) noexcept { return ""; }
const char* get_cuda_check_suffix() noexcept { return ""; }
const char* get_cuda_async_error_suffix(cudaError_t) noexcept { return ""; }
std::mutex* getFreeMutex() {
  static std::mutex mutex;
  return &mutex;
}

void c10_cuda_check_implementation(
    const int32_t number, const char* file, const char* function, const uint32_t line, const bool) {
  auto error = static_cast<cudaError_t>(number);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // an error that does not persist is reported once
  throw c10::Error({function, file, line}, std::string("CUDA error: ") + cudaGetErrorString(error));
}

cudaStream_t CUDAStream::stream() const { return reinterpret_cast<cudaStream_t>(stream_.id()); }
bool CUDAStream::query() const {
  auto error = cudaStreamQuery(stream());
  if (error != cudaErrorNotReady) C10_CUDA_CHECK(error);
  return error == cudaSuccess;
}
void CUDAStream::synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream())); }

CUDAStream getStreamFromPool(const int priority, DeviceIndex device) {
  check_device(device);
  cudaStream_t stream;
  C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return stream_of(reinterpret_cast<StreamId>(stream));
}
CUDAStream getStreamFromPool(const bool is_high_priority, DeviceIndex device) {
  return getStreamFromPool(is_high_priority ? -1 : 0, device);
}
CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) {
  return stream_of(reinterpret_cast<StreamId>(stream));
}
CUDAStream getDefaultCUDAStream(DeviceIndex device) {
  check_device(device);
  return stream_of(0);
}
CUDAStream getCurrentCUDAStream(DeviceIndex device) {
  check_device(device);
  return stream_of(kcheck_torch_stream());
}
void setCurrentCUDAStream(CUDAStream stream) { kcheck_torch_set_stream(stream.id()); }
std::ostream& operator<<(std::ostream& out, const CUDAStream& stream) { return out << stream.unwrap(); }

}  // namespace c10::cuda

namespace at::cuda {
namespace {

cudaDeviceProp* properties() {
  static cudaDeviceProp known = [] {
    cudaDeviceProp found;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&found, 0));
    return found;
  }();
  return &known;
}

[[noreturn]] void refuse(const char* library) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "kcheck's cpu device has no ", library,
      ", which is machine code for a GPU; use PyTorch's operators (at::mm, ...), or a kernel");
}

}  // namespace

cudaDeviceProp* getCurrentDeviceProperties() { return properties(); }
cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) {
  if (device > 0) C10_CUDA_CHECK(cudaErrorInvalidDevice);
  return properties();
}
int warp_size() { return 32; }
bool canDeviceAccessPeer(c10::DeviceIndex, c10::DeviceIndex) { return false; }
c10::Allocator* getCUDADeviceAllocator() { return c10::GetAllocator(c10::kCUDA); }
cusparseHandle_t getCurrentCUDASparseHandle() { refuse("cuSPARSE"); }
cublasHandle_t getCurrentCUDABlasHandle(bool) { refuse("cuBLAS"); }
cublasLtHandle_t getCurrentCUDABlasLtHandle() { refuse("cuBLASLt"); }
cusolverDnHandle_t getCurrentCUDASolverDnHandle() { refuse("cuSOLVER"); }

}  // namespace at::cuda
