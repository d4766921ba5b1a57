// The operator example::squared_relu(x, scale) = scale · max(x, 0)²: what LibTorch's dispatcher, ONNX export and the
// planner must know of it. Its kernel for GPUs is in operator_cuda.cu.
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty_like.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "example.h"
#include "exporters/onnx/lower/lowering.h"
#include "roofline/op_cost.h"

namespace example {
namespace {

using namespace trainctl;

at::Tensor call_backward(const at::Tensor& gradient, const at::Tensor& x, double scale) {
  static const auto function = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("example::squared_relu_backward", "")
                                   .typed<at::Tensor(const at::Tensor&, const at::Tensor&, double)>();
  return function.call(gradient, x, scale);
}

// The reference: it says what the operator computes, on the CPU.
template <class T>
void forward_range(const T* x, T* y, float scale, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float positive = std::max(static_cast<float>(x[i]), 0.0F);
    y[i] = static_cast<T>(scale * positive * positive);
  }
}

constexpr std::int64_t kGrain = 1 << 15;  // elements of a thread

at::Tensor forward_cpu(const at::Tensor& given, double scale) {
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "squared_relu", [&] {
    const auto* from = x.const_data_ptr<scalar_t>();
    auto* to = y.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (std::is_same_v<scalar_t, double>)
        for (std::int64_t i = begin; i < end; ++i) to[i] = from[i] > 0 ? scale * from[i] * from[i] : 0;
      else
        forward_range(from, to, static_cast<float>(scale), begin, end);
    });
  });
  return y;
}

at::Tensor backward_cpu(const at::Tensor& gradient, const at::Tensor& x, double scale) {
  return gradient.mul(x.clamp_min(0)).mul(2 * scale);
}

// Without values: shapes and types are those of x. The planner runs steps with these.
at::Tensor forward_meta(const at::Tensor& x, double) {
  return at::empty_like(x.contiguous());
}
at::Tensor backward_meta(const at::Tensor& gradient, const at::Tensor&, double) {
  return at::empty_like(gradient);
}

struct SquaredRelu final : torch::autograd::Function<SquaredRelu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double scale) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x});
    context->saved_data["scale"] = scale;
    return squared_relu(x, scale);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {call_backward(gradients[0], x, context->saved_data["scale"].toDouble()), at::Tensor()};
  }
};

at::Tensor forward_autograd(const at::Tensor& x, double scale) {
  return SquaredRelu::apply(x, scale);
}

/// Under autocast the square is computed in the type that matrix products give.
at::Tensor forward_autocast(const at::Tensor& x, double scale) {
  const c10::DeviceType device = x.device().type();
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  return squared_relu(at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), x, device), scale);
}

void lower(exporters::Lowering& to) {
  const std::string x = to.tensor("x");
  const std::string positive = to.graph().add("Relu", {x});
  const std::string square = to.graph().add("Mul", {positive, positive});
  const double scale = to.fixed_number("scale");
  to.set(scale == 1 ? square : to.graph().add("Mul", {square, to.graph().number(scale, to.dtype(to.argument("x")))}));
}

/// Loads the library with the kernels for GPUs, which is beside this one, where there is a driver.
void load_cuda_kernels() {
  Dl_info self{};
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr || dladdr(reinterpret_cast<void*>(&load_cuda_kernels), &self) == 0)
    return;
  const std::filesystem::path library = std::filesystem::path(self.dli_fname).parent_path() / "libexample_cuda.so";
  if (std::filesystem::exists(library) && dlopen(library.c_str(), RTLD_NOW) == nullptr)
    throw core::Error("cannot load " + library.string() + ": " + dlerror());
}

}  // namespace

at::Tensor squared_relu(const at::Tensor& x, double scale) {
  static const auto function = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("example::squared_relu", "")
                                   .typed<at::Tensor(const at::Tensor&, double)>();
  return function.call(x, scale);
}

TORCH_LIBRARY(example, library) {
  library.def("squared_relu(Tensor x, float scale) -> Tensor");
  library.def("squared_relu_backward(Tensor gradient, Tensor x, float scale) -> Tensor");
}
TORCH_LIBRARY_IMPL(example, CPU, library) {
  library.impl("squared_relu", &forward_cpu);
  library.impl("squared_relu_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(example, Meta, library) {
  library.impl("squared_relu", &forward_meta);
  library.impl("squared_relu_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(example, Autograd, library) {
  library.impl("squared_relu", &forward_autograd);
}
TORCH_LIBRARY_IMPL(example, AutocastCPU, library) {
  library.impl("squared_relu", &forward_autocast);
}
TORCH_LIBRARY_IMPL(example, AutocastCUDA, library) {
  library.impl("squared_relu", &forward_autocast);
}

void add_operator() {
  load_cuda_kernels();
  exporters::add_lowering("example::squared_relu", &lower);
  // Each reads what it is given and writes its output, at the memory's pace.
  const roofline::OpCostRule by_bytes{.role = roofline::OperatorRole::whole, .kind = roofline::WorkKind::stream};
  roofline::add_cost_rule("example::squared_relu", by_bytes);
  roofline::add_cost_rule("example::squared_relu_backward", by_bytes);
}

}  // namespace example
