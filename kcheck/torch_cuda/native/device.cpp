// The device that PyTorch sees as cuda:0: its guard, its hooks, and the function that registers everything.
#include "generator.h"
#include "tensors.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace kcheck {

void register_operators();
void fill_uninitialized(int64_t byte);

namespace {

thread_local c10::StreamId current_stream = 0;

c10::Stream stream_of(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, DEVICE, id); }

void check_device(c10::Device device) {
  TORCH_CHECK(device.is_cuda(), "Expected a CUDA device, but got ", device);
  TORCH_CHECK(device.index() <= 0, "CUDA error: invalid device ordinal");
}

// There is one device, and every call is complete when it returns.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    check_device(device);
    return DEVICE;
  }
  c10::Device getDevice() const override { return DEVICE; }
  void setDevice(c10::Device device) const override { check_device(device); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return stream_of(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream_of(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream_of(0); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    auto before = stream_of(current_stream);
    current_stream = stream.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
};

struct Hooks final : at::CUDAHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex device) const override { check_device({c10::kCUDA, device}); }
  int getNumGPUs() const override { return 1; }
  void deviceSynchronize(c10::DeviceIndex) const override {}
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return new_generator(); }
  c10::Device getDeviceFromPtr(void*) const override { return DEVICE; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  c10::Allocator* getCUDADeviceAllocator() const override { return c10::GetAllocator(c10::kCUDA); }
};

// PyTorch's build for CUDA registers its own hooks later. The registry would print that it skips them, and has no
// other way to turn that off: an explicit instantiation may name a private member.
using HooksRegistry = std::remove_reference_t<decltype(*at::CUDAHooksRegistry())>;
template <auto Member>
struct Exposed {
  friend auto prints_skipped() { return Member; }
};
auto prints_skipped();
template struct Exposed<&HooksRegistry::warning_>;

// PyTorch asks once, while it is imported: this library is loaded before.
const bool registered = [] {
  at::CUDAHooksRegistry()->Register("CUDAHooks", [](at::CUDAHooksArgs) -> std::unique_ptr<at::CUDAHooksInterface> {
    return std::make_unique<Hooks>();
  }, c10::REGISTRY_PREFERRED);
  const_cast<bool&>(at::CUDAHooksRegistry()->*prints_skipped()) = false;
  return true;
}();

}  // namespace
}  // namespace kcheck

extern "C" {

// Called once, right after PyTorch is imported. Returns null, or what went wrong.
const char* kcheck_torch_install() {
  using namespace kcheck;
  try {
    register_allocator();
    c10::impl::registerDeviceGuard(c10::kCUDA, new Guard());
    register_operators();
    static torch::Library own(torch::Library::DEF, "kcheck", std::nullopt, __FILE__, __LINE__);
    own.def("default_generator() -> Generator?", [] { return default_generator(); });
    own.def("fill_uninitialized(int byte) -> ()", &fill_uninitialized);
    return at::detail::getCUDAHooks().hasCUDA() ? nullptr : "PyTorch has asked for a GPU before kcheck was installed";
  } catch (const std::exception& error) {
    static std::string text = error.what();
    return text.c_str();
  }
}

size_t kcheck_torch_take(kcheck::Change* changes, size_t count) { return kcheck::take_changes(changes, count); }

int64_t kcheck_torch_stream() { return kcheck::current_stream; }
void kcheck_torch_set_stream(int64_t stream) { kcheck::current_stream = stream; }
}
