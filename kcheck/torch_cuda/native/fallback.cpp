// Every operator of PyTorch on cuda runs as on the CPU, on tensors that share the memory of its arguments.
#include "generator.h"
#include "tensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sub.h>
#include <torch/library.h>

#include <cstring>
#include <optional>
#include <string>
#include <unordered_set>

namespace kcheck {
namespace {

using c10::IValue;

int64_t uninitialized_byte = -1;  // with which new memory is filled; -1: it is left as it is

// The namespaces of PyTorch: an operator of another one, which a program has for the CPU only, does not run on cuda.
std::unordered_set<std::string> own_namespaces{"torchvision", "torchaudio"};

IValue host_value(Sides& sides, const IValue& value, std::optional<c10::Device>& wanted) {
  if (value.isTensor()) return sides.host(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(sides.host(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(sides.host(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isStorage()) return sides.host(value.toStorage());
  if (value.isGenerator()) return host_generator(value.toGenerator());
  if (value.isDevice()) {
    wanted = value.toDevice();
    TORCH_CHECK(!wanted->is_cuda() || wanted->index() <= 0, "CUDA error: invalid device ordinal");
    if (wanted->is_cuda()) return c10::Device(c10::kCPU);
  }
  return value;
}

IValue device_value(Sides& sides, const IValue& value) {
  if (value.isTensor()) return sides.device(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(sides.device(tensor));
    return list;
  }
  return value;
}

// Memory that an operator makes and leaves uninitialized. What it contains on a GPU is unknown.
void fill(const IValue& made) {
  if (!made.isTensor() || !made.toTensor().defined() || !made.toTensor().is_cuda()) return;
  auto storage = made.toTensor().storage();
  if (storage.nbytes()) std::memset(storage.mutable_data(), uninitialized_byte, storage.nbytes());
}

bool leaves_uninitialized(const std::string& name) {
  return name.rfind("aten::empty", 0) == 0 || name.rfind("aten::new_empty", 0) == 0;
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto& name = schema.operator_name().name;
  bool is_own = own_namespaces.count(name.substr(0, name.find("::")));
  TORCH_CHECK_NOT_IMPLEMENTED(is_own && op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
      "Could not run '", schema.operator_name(), "' with arguments from the 'CUDA' backend. ",
      is_own ? "PyTorch has no implementation for the CPU, with which kcheck's cpu device runs it"
             : "It has no implementation for CUDA");
  Sides sides;
  std::optional<c10::Device> wanted;
  size_t count = schema.arguments().size();
  for (size_t n = stack->size() - count; n < stack->size(); n++) (*stack)[n] = host_value(sides, (*stack)[n], wanted);
  {
    at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  if (schema.is_mutable()) sides.update();
  bool on_device = wanted ? wanted->is_cuda() : true;
  size_t results = schema.returns().size();
  for (size_t n = stack->size() - results; on_device && n < stack->size(); n++)
    (*stack)[n] = device_value(sides, (*stack)[n]);
  if (uninitialized_byte >= 0 && results == 1 && leaves_uninitialized(name)) fill(stack->back());
}

// Below: what PyTorch has for CUDA only.

void record_stream(at::Tensor&, c10::Stream) {}

at::Tensor wide_mm(const at::Tensor& a, const at::Tensor& b, c10::ScalarType type) { return at::mm(a.to(type), b.to(type)); }
at::Tensor wide_bmm(const at::Tensor& a, const at::Tensor& b, c10::ScalarType type) { return at::bmm(a.to(type), b.to(type)); }
at::Tensor wide_addmm(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, c10::ScalarType type,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  return at::addmm(c.to(type), a.to(type), b.to(type), beta, alpha);
}
at::Tensor wide_baddbmm(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, c10::ScalarType type,
                   const at::Scalar& beta, const at::Scalar& alpha) {
  return at::baddbmm(c.to(type), a.to(type), b.to(type), beta, alpha);
}
at::Tensor& wide_mm_out(const at::Tensor& a, const at::Tensor& b, c10::ScalarType type, at::Tensor& out) {
  return out.copy_(wide_mm(a, b, type));
}
at::Tensor& wide_bmm_out(const at::Tensor& a, const at::Tensor& b, c10::ScalarType type, at::Tensor& out) {
  return out.copy_(wide_bmm(a, b, type));
}

bool no_cudnn(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, int64_t) { return false; }
bool no_cudnn_tensors(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t) { return false; }

at::Tensor with_bias(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// nn.LSTMCell: the gates are input, forget, cell, output.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input, const at::Tensor& hidden, const at::Tensor& cell,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  auto gates = (with_bias(input, input_bias) + with_bias(hidden, hidden_bias)).chunk(4, 1);
  auto i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(), o = gates[3].sigmoid();
  auto next = f * cell + i * g;
  return {o * next.tanh(), next, at::cat({i, f, g, o}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const std::optional<at::Tensor>& grad_hidden, const std::optional<at::Tensor>& grad_cell, const at::Tensor& cell,
    const at::Tensor& next, const at::Tensor& workspace, bool has_bias) {
  auto gates = workspace.chunk(4, 1);
  const auto &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  auto t = next.tanh();
  auto total = grad_cell && grad_cell->defined() ? *grad_cell : at::Tensor();
  auto out = at::Tensor();
  if (grad_hidden && grad_hidden->defined()) {
    out = *grad_hidden * t * o * (1 - o);
    auto through = *grad_hidden * o * (1 - t * t);
    total = total.defined() ? total + through : through;
  } else {
    out = (o * 0);
  }
  if (!total.defined()) total = next * 0;
  auto grad = at::cat({total * g * i * (1 - i), total * cell * f * (1 - f), total * i * (1 - g * g), out}, 1);
  return {grad, total * f, has_bias ? grad.sum(0) : at::Tensor()};
}

// nn.GRUCell: the gates are reset, update, new.
std::tuple<at::Tensor, at::Tensor> gru_cell(
    const at::Tensor& input, const at::Tensor& hidden, const at::Tensor& state,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  auto x = with_bias(input, input_bias).chunk(3, 1), h = with_bias(hidden, hidden_bias).chunk(3, 1);
  auto r = (x[0] + h[0]).sigmoid(), z = (x[1] + h[1]).sigmoid();
  auto n = (x[2] + r * h[2]).tanh();
  return {n + z * (state - n), at::cat({r, z, n, state, h[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad, const at::Tensor& workspace, bool has_bias) {
  auto saved = workspace.chunk(5, 1);
  const auto &r = saved[0], &z = saved[1], &n = saved[2], &state = saved[3], &h = saved[4];
  auto grad_n = grad * (1 - z) * (1 - n * n);
  auto grad_z = grad * (state - n) * z * (1 - z);
  auto grad_r = grad_n * h * r * (1 - r);
  auto input = at::cat({grad_r, grad_z, grad_n}, 1), hidden = at::cat({grad_r, grad_z, grad_n * r}, 1);
  return {input, hidden, grad * z, has_bias ? input.sum(0) : at::Tensor(), has_bias ? hidden.sum(0) : at::Tensor()};
}

std::unordered_set<std::string> implemented_here;

template <class F>
void implement(torch::Library& library, const std::string& name, F function) {
  auto dot = name.find('.');
  std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  // Another version of PyTorch may not have all of them.
  if (c10::Dispatcher::singleton().findSchema({"aten::" + name.substr(0, dot), overload})) {
    library.impl(name.c_str(), function);
    implemented_here.insert(name);
  }
}

// PyTorch for CUDA has its own implementations, and warns when they are replaced.
struct NoWarnings final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

void fill_uninitialized(int64_t byte) { uninitialized_byte = byte; }

void register_operators() {
  NoWarnings quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  static torch::Library everything(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  everything.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  implement(library, "record_stream", &record_stream);
  implement(library, "mm.dtype", &wide_mm);
  implement(library, "bmm.dtype", &wide_bmm);
  implement(library, "addmm.dtype", &wide_addmm);
  implement(library, "baddbmm.dtype", &wide_baddbmm);
  implement(library, "mm.dtype_out", &wide_mm_out);
  implement(library, "bmm.dtype_out", &wide_bmm_out);
  for (std::string name : {"_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"}) {
    implement(library, name, &no_cudnn);
    implement(library, name + ".Tensor", &no_cudnn_tensors);
  }
  implement(library, "_thnn_fused_lstm_cell", &lstm_cell);
  implement(library, "_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  implement(library, "_thnn_fused_gru_cell", &gru_cell);
  implement(library, "_thnn_fused_gru_cell_backward", &gru_cell_backward);
  // PyTorch composes these of others, and some choose an implementation by the device, which is not there for CUDA.
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    std::string space = name.name.substr(0, name.name.find("::"));
    own_namespaces.insert(space);
    if (space != "aten") continue;
    auto found = dispatcher.findSchema(name);
    std::string full = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    if (!found || implemented_here.count(full)) continue;
    bool is_replaced = found->hasKernelForDispatchKey(c10::DispatchKey::CUDA);
    if (!is_replaced && !found->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
        !found->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional))
      continue;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
}

}  // namespace kcheck
