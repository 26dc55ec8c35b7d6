// A program gets the 16 bytes of a GPU's generator, a seed and an offset; PyTorch's operations draw from a generator of
// the CPU, whose state has 5,056 bytes. Triton programs pass seed and offset to their kernels, and set an offset that is
// beyond the numbers that a kernel has drawn.
#include "generator.h"

#include "tensors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace kcheck {
namespace {

constexpr uint64_t STEP = 4;  // a GPU's generator draws four numbers at a time
constexpr size_t MOST_KNOWN = 10000;  // states that are kept, each 5 KB; an older one gives different numbers
constexpr uint64_t MIX = 0x9E3779B97F4A7C15;

using Point = std::pair<uint64_t, uint64_t>;  // seed and offset
using State = std::string;  // of a generator of the CPU

c10::intrusive_ptr<c10::TensorImpl> tensor_of(const char* bytes, size_t size) {
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), size, c10::GetCPUAllocator(), false));
  std::memcpy(storage.mutable_data(), bytes, size);
  auto made = c10::make_intrusive<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta::Make<uint8_t>());
  made->set_sizes_contiguous({static_cast<int64_t>(size)});
  return made;
}

State state_of(const at::Generator& generator) {
  auto tensor = generator.get_state();
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.numel())};
}

// Which state of the CPU's generator a seed and an offset stand for. A state has one offset: a program reads equal
// states if the same numbers follow.
class KnownStates {
 public:
  Point point(const State& state, uint64_t last) {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t seed;
    std::memcpy(&seed, state.data(), sizeof seed);
    if (state == find({seed, 0})) return {seed, 0};
    auto known = points_.find(state);
    if (known != points_.end()) return known->second;
    Point point{seed, last + STEP};
    while (states_.count(point)) point.second += STEP;
    add(point, state);
    return point;
  }

  State state(Point point) {
    std::lock_guard<std::mutex> lock(mutex_);
    return find(point);
  }

 private:
  State find(Point point) {
    auto known = states_.find(point);
    if (known != states_.end()) return known->second;
    // Any function of both will do. With offset 0, it is the state that the seed alone gives.
    auto generator = at::detail::createCPUGenerator(point.second ? (point.first + point.second * MIX) >> 1 : point.first);
    auto state = state_of(generator);
    std::memcpy(state.data(), &point.first, sizeof point.first);
    add(point, state);
    return state;
  }

  void add(Point point, const State& state) {
    if (order_.size() >= MOST_KNOWN) {
      auto oldest = states_.find(order_.front());
      points_.erase(oldest->second);
      states_.erase(oldest);
      order_.pop_front();
    }
    order_.push_back(point);
    states_[point] = state;
    points_[state] = point;
  }

  std::mutex mutex_;
  std::map<Point, State> states_;
  std::map<State, Point> points_;
  std::deque<Point> order_;
};

KnownStates& known() {
  static KnownStates states;
  return states;
}

struct DeviceGenerator final : c10::GeneratorImpl {
  explicit DeviceGenerator(at::Generator drawn_from)
      : c10::GeneratorImpl(DEVICE, c10::DispatchKeySet(c10::DispatchKey::CUDA)), host(std::move(drawn_from)) {}

  void set_current_seed(uint64_t seed) override {
    host.set_current_seed(seed);
    last_offset = 0;
  }
  uint64_t current_seed() const override { return host.current_seed(); }
  uint64_t seed() override {
    last_offset = 0;
    return host.seed();
  }
  void set_offset(uint64_t offset) override { move({point().first, offset}); }
  uint64_t get_offset() const override { return point().second; }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto here = point();
    uint64_t words[] = {here.first, here.second};
    return tensor_of(reinterpret_cast<const char*>(words), sizeof words);
  }
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == 16, "the state of a generator on cuda has 16 bytes: a seed and an offset");
    uint64_t words[2];
    std::memcpy(words, state.data(), sizeof words);
    move({words[0], words[1]});
  }

  at::Generator host;

 private:
  DeviceGenerator* clone_impl() const override { return new DeviceGenerator(host.clone()); }
  Point point() const {
    auto found = known().point(state_of(host), last_offset);
    last_offset = found.second;
    return found;
  }
  void move(Point to) {
    auto state = known().state(to);
    auto tensor = tensor_of(state.data(), state.size());
    host.unsafeGetGeneratorImpl()->set_state(*tensor);
    last_offset = to.second;
  }

  mutable uint64_t last_offset = 0;
};

}  // namespace

at::Generator new_generator() { return at::make_generator<DeviceGenerator>(at::detail::createCPUGenerator()); }

const at::Generator& default_generator() {
  static at::Generator generator = at::make_generator<DeviceGenerator>(at::detail::getDefaultCPUGenerator());
  return generator;
}

at::Generator host_generator(const at::Generator& generator) {
  if (!generator.defined() || !generator.device().is_cuda()) return generator;
  return static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->host;
}

}  // namespace kcheck
