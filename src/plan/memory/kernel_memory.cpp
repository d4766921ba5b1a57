#include "plan/memory/kernel_memory.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string_view>
#include <unordered_map>

namespace trainctl::plan {
namespace {

using Stack = torch::jit::Stack;

constexpr std::int64_t kSmallInput = 20'480;  // elements up to which LibTorch doesn't hand a convolution to oneDNN

std::int64_t product_of(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t bytes_of(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return 0;
  return static_cast<std::int64_t>(value.toTensor().nbytes());
}

const TensorOutline& batch_spec_of(const KernelCall& call, std::size_t argument) {
  return *call.tensors.at(argument);
}

/// Returns the bytes of an image's windows as columns of a matrix, for kernels that compute a convolution as a matrix
/// product. LibTorch lays out the windows of a small batch at once, oneDNN one image per thread.
std::int64_t window_bytes(const TensorOutline& input, const TensorOutline& weight) {
  const std::int64_t samples = std::max<std::int64_t>(1, input.sizes[0]);
  const bool at_once = product_of(input.sizes) <= kSmallInput || input.dtype == at::kDouble;
  const std::int64_t images = at_once ? samples : std::min<std::int64_t>(samples, at::get_num_threads());
  const std::int64_t window = product_of(weight.sizes) / (weight.sizes[0] * weight.sizes[1]);
  return input.bytes() / samples * images * window;
}

/// Returns the bytes of the weights in oneDNN's blocks: each group's outputs and inputs are filled up to vectors of 16
/// numbers. A group of one channel thus becomes 16 × 16 kernels. Measured (LibTorch 2.11, ONEDNN_MAX_CPU_ISA): kernels
/// for AVX-512 hold exactly this for images in channels_last, and those for AVX2 hold vectors of 8. Only depthwise
/// convolutions of at most 3 × 3 pixels have a kernel without blocks.
std::int64_t blocked_bytes(const TensorOutline& weight, std::int64_t groups) {
  constexpr std::int64_t kVector = 16;
  const auto filled = [](std::int64_t channels) { return (channels + kVector - 1) / kVector * kVector; };
  const std::int64_t pixels = product_of(weight.sizes) / (weight.sizes[0] * weight.sizes[1]);
  const auto number = std::max<std::int64_t>(sizeof(float), static_cast<std::int64_t>(c10::elementSize(weight.dtype)));
  return groups * filled(weight.sizes[0] / groups) * filled(weight.sizes[1]) * pixels * number;
}

/// Bounds a convolution's workspace: oneDNN lays out the weights in blocks, and the images if their order isn't its
/// own.
void bound_convolution(KernelCall& call) {
  const TensorOutline& input = batch_spec_of(call, 0);
  const TensorOutline& weight = batch_spec_of(call, 1);
  call.batched = {0};
  call.usual = weight.bytes();
  const std::int64_t output =
      input.bytes() / std::max<std::int64_t>(1, input.sizes[1]) * std::max(weight.sizes[0], weight.sizes[1]);
  constexpr std::size_t kGroups = 8;
  const std::int64_t blocked = blocked_bytes(weight, call.arguments.at(kGroups).toInt());
  call.bound = 2 * std::max(weight.bytes(), blocked) + input.bytes() + output + window_bytes(input, weight);
}

/// Bounds the workspace of the backward pass: the weights' gradient in two orders, one of them in blocks. AVX2 kernels
/// hold eight copies for images of one or two pixels a side.
void bound_convolution_backward(KernelCall& call) {
  const TensorOutline& gradient = batch_spec_of(call, 0);
  const TensorOutline& input = batch_spec_of(call, 1);
  const TensorOutline& weight = batch_spec_of(call, 2);
  call.batched = {0, 1};
  call.usual = 2 * weight.bytes();
  constexpr std::size_t kGroups = 9;
  const std::int64_t blocked = blocked_bytes(weight, call.arguments.at(kGroups).toInt());
  call.bound = 10 * weight.bytes() + blocked + gradient.bytes() + input.bytes() + window_bytes(input, weight);
}

/// Bounds the workspace of a product: both sides in blocks if they have 16 bits.
void bound_product(KernelCall& call) {
  const TensorOutline& right = batch_spec_of(call, 1);
  if (right.dtype != at::kBFloat16 && right.dtype != at::kHalf) return;
  call.usual = right.bytes();
  call.bound = right.bytes() + batch_spec_of(call, 0).bytes();
}

using Law = void (*)(KernelCall& call);

Law find_law(const c10::OperatorHandle& op) {
  static const std::unordered_map<std::string_view, Law> laws{
      {"aten::convolution", &bound_convolution},
      {"aten::convolution_backward", &bound_convolution_backward},
      {"aten::mm", &bound_product}};
  const auto found = laws.find(op.operator_name().name);
  return found == laws.end() || op.operator_name().overload_name == "out" ? nullptr : found->second;
}

}  // namespace

std::int64_t TensorOutline::bytes() const {
  return product_of(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype));
}

std::int64_t KernelCall::batch() const {
  return batched.empty() ? 0 : batch_spec_of(*this, batched.front()).sizes.at(0);
}

double KernelCall::flops_per_sample() const {
  if (batched.empty()) {
    const TensorOutline& left = batch_spec_of(*this, 0);
    return 2.0 * static_cast<double>(product_of(left.sizes)) *
           static_cast<double>(batch_spec_of(*this, 1).sizes.back());
  }
  const TensorOutline& image = batch_spec_of(*this, batched.front());  // the input, or the output's gradient
  const TensorOutline& weight = batch_spec_of(*this, batched.back() + 1);
  const auto pixels = static_cast<double>(product_of(image.sizes)) /
                      static_cast<double>(std::max<std::int64_t>(1, image.sizes[0] * image.sizes[1]));
  return 2.0 * static_cast<double>(batched.size()) * pixels * static_cast<double>(product_of(weight.sizes));
}

std::string KernelCall::key() const {
  std::ostringstream text;
  text << op.operator_name();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    text << " ";
    if (!tensors[i]) {
      text << arguments[i];
      continue;
    }
    const bool is_batched = std::find(batched.begin(), batched.end(), i) != batched.end();
    text << c10::toString(tensors[i]->dtype);
    for (std::size_t dim = 0; dim < tensors[i]->sizes.size(); ++dim) {
      text << (dim == 0 ? "[" : ",");
      if (dim == 0 && is_batched)
        text << "n";
      else
        text << tensors[i]->sizes[dim] << ":" << tensors[i]->strides[dim];
    }
    text << "]";
  }
  return text.str();
}

std::optional<KernelCall> find_kernel_call(const c10::OperatorHandle& op, const Stack& stack) {
  const Law law = find_law(op);
  if (law == nullptr) return std::nullopt;
  const std::size_t count = op.schema().arguments().size();
  KernelCall call{.op = op, .arguments = {stack.end() - static_cast<std::ptrdiff_t>(count), stack.end()}};
  for (c10::IValue& value : call.arguments) {
    call.tensors.emplace_back();
    if (!value.isTensor()) continue;
    const at::Tensor tensor = value.toTensor();
    value = c10::IValue();
    if (tensor.defined())
      call.tensors.back() = {
          .sizes = tensor.sizes().vec(), .strides = tensor.strides().vec(), .dtype = tensor.scalar_type()};
  }
  law(call);
  if (call.bound == 0) return std::nullopt;
  return call;
}

std::int64_t cuda_kernel_memory(const c10::OperatorHandle& op, const Stack& stack) {
  const std::string& name = op.operator_name().name;
  const std::size_t first = stack.size() - op.schema().arguments().size();
  if (name == "aten::convolution") return bytes_of(stack[first + 1]);
  if (name == "aten::convolution_backward") return 2 * bytes_of(stack[first + 2]);
  return 0;
}

}  // namespace trainctl::plan
