// example::squared_relu on NVIDIA GPUs. It computes what the reference in operator.cpp does, element by element.
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

namespace example {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

template <class T>
__global__ void forward_kernel(const T* x, T* y, float scale, std::int64_t size) {
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < size;
       i += std::int64_t{gridDim.x} * kThreads) {
    const float positive = fmaxf(static_cast<float>(x[i]), 0.0F);
    y[i] = static_cast<T>(scale * positive * positive);
  }
}

template <class T>
__global__ void backward_kernel(const T* gradient, const T* x, T* out, float scale, std::int64_t size) {
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < size;
       i += std::int64_t{gridDim.x} * kThreads)
    out[i] = static_cast<T>(2 * scale * fmaxf(static_cast<float>(x[i]), 0.0F) * static_cast<float>(gradient[i]));
}

int blocks_of(std::int64_t size) {
  return static_cast<int>(std::min((size + kThreads - 1) / kThreads, kMostBlocks));
}

at::Tensor forward_cuda(const at::Tensor& given, double scale) {
  const c10::cuda::CUDAGuard device(given.device());
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty_like(x);
  if (x.numel() == 0) return y;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "squared_relu", [&] {
    forward_kernel<<<blocks_of(x.numel()), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.const_data_ptr<scalar_t>(), y.mutable_data_ptr<scalar_t>(), static_cast<float>(scale), x.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

at::Tensor backward_cuda(const at::Tensor& given_gradient, const at::Tensor& given, double scale) {
  const c10::cuda::CUDAGuard device(given.device());
  const at::Tensor x = given.contiguous();
  const at::Tensor gradient = given_gradient.contiguous();
  at::Tensor out = at::empty_like(gradient);
  if (x.numel() == 0) return out;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "squared_relu_backward", [&] {
    backward_kernel<<<blocks_of(x.numel()), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        gradient.const_data_ptr<scalar_t>(), x.const_data_ptr<scalar_t>(), out.mutable_data_ptr<scalar_t>(),
        static_cast<float>(scale), x.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(example, CUDA, library) {
  library.impl("squared_relu", &forward_cuda);
  library.impl("squared_relu_backward", &backward_cuda);
}

}  // namespace example
