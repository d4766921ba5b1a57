#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/median.h"
#include "kernels/attention.h"
#include "kernels/batch_norm.h"
#include "kernels/convolution.h"
#include "kernels/dropout.h"
#include "kernels/matrix_product.h"
#include "kernels/max_pool.h"
#include "plan/time/device_rates.h"
#include "roofline/device_peaks.h"

namespace trainctl::plan {
namespace {

constexpr double kLongEnough = 0.012;  // seconds of runs at one size
constexpr double kTooLong = 0.06;      // of one run: nothing larger is tried
constexpr int kMostRuns = 12;
constexpr std::int64_t kEvicted = 2 << 20;  // floats

/// A measured call: run(i) does `work`, each i on other memory if caches matter.
struct Probe {
  double work = 0;
  std::function<void(int)> run;
};

/// Returns the median of a few runs. Before each, other data fills the nearer caches, as a step's other operators do.
double usual_seconds(const Probe& probe, c10::Device device, const core::Clock& now) {
  const at::Tensor other = device.is_cpu() ? at::zeros({kEvicted}, device) : at::Tensor();
  const auto once = [&](int i) {
    if (other.defined()) at::Tensor(other).fill_(i);
    return roofline::time_run(
        device, [&] { probe.run(i); }, now);
  };
  const double first = once(0);  // also faults memory in, and lets libraries choose their kernels
  if (first > 4 * kTooLong) return first;
  std::vector<double> runs;
  double all = 0;
  for (int i = 1; i <= kMostRuns && (i <= 3 || all < kLongEnough); ++i) {
    runs.push_back(once(i));
    all += runs.back();
  }
  return core::median(std::move(runs));
}

/// A maker of probes of one kind and type on a device.
class Bench {
 public:
  Bench(const RateKey& key, c10::Device device)
      : key_(key), floats_(at::TensorOptions(device).dtype(key.dtype)), ids_(floats_.dtype(at::kLong)) {}

  /// Returns the probes from small to large.
  std::vector<std::function<Probe()>> probes() const;

 private:
  using Makers = std::vector<std::function<Probe()>>;

  at::Tensor values(at::IntArrayRef shape) const { return at::randn(shape, floats_.dtype(at::kFloat)).to(floats_); }
  at::Tensor image(at::IntArrayRef shape) const {
    return values(shape).contiguous(key_.order == roofline::PixelOrder::channels_last ? at::MemoryFormat::ChannelsLast
                                                                                      : at::MemoryFormat::Contiguous);
  }
  double bytes(double elements) const { return elements * static_cast<double>(c10::elementSize(key_.dtype)); }

  Makers products() const;
  Makers batched_products() const;
  struct ConvolutionShape {
    std::int64_t batch, channels, size, out, kernel, stride, groups;
  };
  std::vector<ConvolutionShape> convolution_shapes() const;
  Makers convolutions(bool backward) const;
  Makers attentions(bool backward) const;
  Makers recurrences(bool backward) const;
  /// Returns makers for operators that move bytes; `make` takes a number of elements.
  Makers by_size(const std::function<Probe(std::int64_t elements)>& make) const;
  Probe row_probe(std::int64_t elements) const;
  Probe image_probe(std::int64_t elements) const;
  Probe pool_probe(const at::Tensor& images) const;
  Probe batch_norm_probe(const at::Tensor& images, const at::Tensor& ones) const;
  Probe index_probe(std::int64_t elements) const;

  RateKey key_;
  at::TensorOptions floats_;
  at::TensorOptions ids_;
};

Bench::Makers Bench::products() const {
  struct Extents {
    std::int64_t rows, inner, columns;
  };
  const std::vector<Extents> shapes =
      key_.is_narrow
          ? std::vector<Extents>{{kNarrow, 128, 128}, {kNarrow, 512, 512}, {kNarrow, 1024, 2048}}
          : std::vector<Extents>{{48, 48, 48}, {128, 128, 128}, {256, 256, 256}, {512, 512, 512}, {1024, 768, 1024}};
  Makers makers;
  const std::int64_t scale = floats_.device().is_cpu() ? 1 : 4;
  for (const Extents& shape : shapes)
    makers.emplace_back([this, shape, scale] {
      const std::int64_t inner = shape.inner * scale;
      const std::int64_t columns = shape.columns * scale;
      const std::int64_t rows = key_.is_narrow ? shape.rows : shape.rows * scale;
      const at::Tensor left = values({rows, inner});
      const at::Tensor right = values({columns, inner}).t();
      return Probe{2.0 * static_cast<double>(rows * inner * columns),
                   [=](int) { kernels::matrix_product(left, right); }};
    });
  return makers;
}

Bench::Makers Bench::batched_products() const {
  Makers makers;
  for (const std::int64_t batch : {4, 32, 96})
    makers.emplace_back([this, batch] {
      const std::int64_t size = batch < 32 ? 32 : 128;
      const at::Tensor left = values({batch, size, 64});
      const at::Tensor right = values({batch, size, 64}).transpose(1, 2);
      return Probe{2.0 * static_cast<double>(batch * size * size * 64), [=](int) { at::bmm(left, right); }};
    });
  return makers;
}

/// Returns a function that computes the gradient of `output`'s sum by `inputs` again and again.
std::function<void(int)> gradients_of(const at::Tensor& output, const std::vector<at::Tensor>& inputs) {
  const at::Tensor slope = at::ones_like(output.detach());
  return [=](int) { torch::autograd::grad({output}, inputs, {slope}, /*retain_graph=*/true); };
}

std::vector<Bench::ConvolutionShape> Bench::convolution_shapes() const {
  using enum roofline::WorkKind;
  if (key_.kind == pointwise || key_.kind == pointwise_backward)
    return {{4, 32, 8, 64, 1, 1, 1}, {8, 64, 28, 128, 1, 1, 1}, {8, 256, 28, 128, 1, 1, 1}};
  if (key_.kind == stem || key_.kind == stem_backward)
    return {{8, 3, 32, 16, 3, 1, 1}, {16, 3, 32, 64, 3, 1, 1}, {8, 3, 112, 64, 7, 2, 1}};
  if (key_.kind == depthwise || key_.kind == depthwise_backward)
    return {{4, 32, 16, 32, 3, 1, 32}, {8, 128, 28, 128, 3, 1, 128}};
  return {{4, 16, 14, 32, 3, 1, 1}, {8, 64, 16, 64, 3, 1, 1}, {8, 128, 14, 128, 3, 1, 1}, {8, 64, 56, 64, 3, 1, 1}};
}

Bench::Makers Bench::convolutions(bool backward) const {
  Makers makers;
  for (const ConvolutionShape& shape : convolution_shapes())
    makers.emplace_back([this, shape, backward] {
      const bool is_stem = shape.channels <= 4;  // nobody asks for the gradient of the images
      const at::AutoGradMode grad(backward);
      const at::Tensor input = image({shape.batch, shape.channels, shape.size, shape.size});
      const at::Tensor weight = image({shape.out, shape.channels / shape.groups, shape.kernel, shape.kernel});
      input.set_requires_grad(backward && !is_stem);
      weight.set_requires_grad(backward);
      const kernels::ConvolutionGeometry geometry{
          .stride = shape.stride, .padding = shape.kernel / 2, .dilation = 1, .groups = shape.groups};
      const auto forward = [=] { return kernels::convolution(input, weight, {}, geometry); };
      const at::Tensor output = forward();
      const double flops = 2.0 * static_cast<double>(output.numel()) * static_cast<double>(weight.numel()) /
                           static_cast<double>(shape.out) * (backward && !is_stem ? 2 : 1);
      if (!backward) return Probe{flops, [=](int) { forward(); }};
      return Probe{flops, gradients_of(output, is_stem ? std::vector{weight} : std::vector{input, weight})};
    });
  return makers;
}

Bench::Makers Bench::attentions(bool backward) const {
  Makers makers;
  for (const std::int64_t tokens : {32, 128, 512})
    makers.emplace_back([this, tokens, backward] {
      const std::int64_t batch = tokens < 512 ? 8 : 2;
      const at::AutoGradMode grad(backward);
      const auto heads = [&] { return values({batch, tokens, 4, 64}).transpose(1, 2).set_requires_grad(backward); };
      const at::Tensor q = heads();
      const at::Tensor k = heads();
      const at::Tensor v = heads();
      // A training step wants gradients, which decides between the two.
      const at::AutoGradMode training(true);
      const bool is_own = kernels::suits_short_attention(q, k, v, {}) &&
                          kernels::short_attention_is_faster(q.detach().requires_grad_(true), kernels::Visible::all);
      const auto forward = [=] {
        return is_own ? kernels::short_attention(q, k, v, {}, kernels::Visible::all)
                      : at::scaled_dot_product_attention(q, k, v);
      };
      const double product = 2.0 * static_cast<double>(batch * 4 * tokens * tokens * 64);
      if (!backward) return Probe{2 * product, [=](int) { forward(); }};
      return Probe{5 * product, gradients_of(forward(), {q, k, v})};
    });
  return makers;
}

Bench::Makers Bench::recurrences(bool backward) const {
  Makers makers;
  for (const std::int64_t size : {64, 256, 512})
    makers.emplace_back([this, size, backward] {
      constexpr std::int64_t kTokens = 32;
      constexpr std::int64_t kBatch = 16;
      const at::AutoGradMode grad(backward);
      const at::Tensor input = values({kTokens, kBatch, size}).set_requires_grad(backward);
      const at::Tensor zero = at::zeros({1, kBatch, size}, floats_);
      std::vector<at::Tensor> weights{values({4 * size, size}), values({4 * size, size}), values({4 * size}),
                                      values({4 * size})};
      for (at::Tensor& weight : weights) weight.mul_(0.01).set_requires_grad(backward);
      const auto forward = [=] {
        return std::get<0>(at::lstm(input, {zero, zero}, weights, true, 1, 0.0, true, false, false));
      };
      const double flops = 2.0 * static_cast<double>(kTokens * kBatch * 8 * size * size);
      if (!backward) return Probe{flops, [=](int) { forward(); }};
      std::vector<at::Tensor> wanted = weights;
      wanted.push_back(input);
      return Probe{2 * flops, gradients_of(forward(), wanted)};
    });
  return makers;
}

Bench::Makers Bench::by_size(const std::function<Probe(std::int64_t)>& make) const {
  Makers makers;
  // In and beyond the caches.
  for (const std::int64_t elements : {4 << 10, 64 << 10, 512 << 10, 4 << 20})
    makers.emplace_back([make, elements] { return make(elements); });
  if (!floats_.device().is_cpu()) makers.emplace_back([make] { return make(64 << 20); });
  return makers;
}

/// Makes a probe of rows of 512 values.
Probe Bench::row_probe(std::int64_t elements) const {
  constexpr std::int64_t kWidth = 512;
  const double n = static_cast<double>(elements);
  const at::Tensor x = values({elements / kWidth, kWidth});
  const at::Tensor y = values({elements / kWidth, kWidth});
  const at::Tensor weight = at::ones({kWidth}, floats_);
  using enum roofline::WorkKind;
  const roofline::WorkKind kind = key_.kind;
  if (kind == transcendental) return {bytes(2 * n), [=](int) { at::gelu(x); }};
  if (kind == softmax) return {bytes(2 * n), [=](int) { at::_log_softmax(x, 1, false); }};
  if (kind == reduction) return {bytes(n), [=](int) { at::sum(x, at::IntArrayRef{0}); }};
  if (kind == random) return {bytes(2 * n), [=](int) { kernels::dropout(x, 0.1); }};
  if (kind == normalization)
    return {bytes(2 * n), [=](int) { at::native_layer_norm(x, {kWidth}, weight, weight, 1e-5); }};
  if (kind == normalization_backward) {
    const auto [output, mean, deviation] = at::native_layer_norm(x, {kWidth}, weight, weight, 1e-5);
    return {bytes(3 * n), [=, m = mean, d = deviation](int) {
              at::native_layer_norm_backward(y, x, {kWidth}, m, d, weight, weight, {true, true, true});
            }};
  }
  if (kind == update) {
    const at::Tensor m = at::zeros_like(x);
    const at::Tensor v = at::zeros_like(x);
    const at::Tensor step = at::ones({}, floats_.dtype(at::kFloat));
    return {bytes(7 * n), [=](int) {
              at::_fused_adamw_({x}, {y}, {m}, {v}, {}, {step}, 1e-6, 0.9, 0.999, 0.01, 1e-8, false, false);
            }};
  }
  return {bytes(3 * n), [=](int) { at::add(x, y); }};
}

/// Makes a probe of images of 64 channels.
Probe Bench::image_probe(std::int64_t elements) const {
  constexpr std::int64_t kChannels = 64;
  const std::int64_t size = elements < (64 << 10) ? 8 : 32;
  const double n = static_cast<double>(elements);
  const at::Tensor x = image({elements / (kChannels * size * size), kChannels, size, size});
  if (key_.kind == roofline::WorkKind::transposition)
    return {bytes(2 * n), [=](int) { x.contiguous(at::MemoryFormat::ChannelsLast); }};
  const bool is_pooling = key_.kind == roofline::WorkKind::pooling || key_.kind == roofline::WorkKind::pooling_backward;
  if (is_pooling && key_.order == roofline::PixelOrder::channels_last && x.is_cpu() && key_.dtype == at::kFloat)
    return pool_probe(x);
  if (is_pooling) {
    const auto [output, indices] = at::max_pool2d_with_indices(x, {2, 2}, {2, 2});
    const double indexed = n / 4 * (8.0 / static_cast<double>(c10::elementSize(key_.dtype)));
    if (key_.kind == roofline::WorkKind::pooling)
      return {bytes(1.25 * n + indexed), [=](int) { at::max_pool2d_with_indices(x, {2, 2}, {2, 2}); }};
    return {bytes(2.25 * n + indexed), [=, pooled = output, places = indices](int) {
              at::max_pool2d_with_indices_backward(pooled, x, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, places);
            }};
  }
  const at::Tensor weight = at::ones({kChannels}, floats_);
  if (kernels::suits_batch_norm(x, weight)) return batch_norm_probe(x, weight);
  const auto forward = [=] {
    return at::native_batch_norm(x, weight, weight, at::zeros_like(weight), at::ones_like(weight), true, 0.1, 1e-5);
  };
  if (key_.kind == roofline::WorkKind::batch_norm) return {bytes(2 * n), [=](int) { forward(); }};
  const auto [output, mean, deviation] = forward();
  return {bytes(3 * n), [=, y = output, m = mean, d = deviation](int) {
            at::native_batch_norm_backward(y, x, weight, weight, weight, m, d, true, 1e-5, {true, true, true});
          }};
}

/// Makes a probe of our own kernel, which keeps a byte for each output.
Probe Bench::pool_probe(const at::Tensor& images) const {
  const bool backward = key_.kind == roofline::WorkKind::pooling_backward;
  const at::AutoGradMode grad(backward);
  const at::Tensor x = images.detach().set_requires_grad(backward);
  const auto forward = [=] { return kernels::relu_of_max_pool(x, kernels::kPool2x2); };
  const auto n = static_cast<double>(images.numel());
  if (!backward) return {bytes(1.3125 * n), [=](int) { forward(); }};
  return {bytes(1.25 * n), gradients_of(forward(), {x})};
}

/// Makes a probe of our own kernel, of images or their gradients.
Probe Bench::batch_norm_probe(const at::Tensor& images, const at::Tensor& ones) const {
  const bool backward = key_.kind == roofline::WorkKind::batch_norm_backward;
  const at::AutoGradMode grad(backward);
  const at::Tensor x = images.detach().set_requires_grad(backward), weight = ones.detach().set_requires_grad(backward);
  const auto forward = [=] { return kernels::batch_norm(x, weight, ones, 1e-5).output; };
  const auto n = static_cast<double>(images.numel());
  if (!backward) return {bytes(2 * n), [=](int) { forward(); }};
  return {bytes(3 * n), gradients_of(forward(), {x, weight})};
}

/// Makes a probe that selects rows of 256 values by their numbers.
Probe Bench::index_probe(std::int64_t elements) const {
  constexpr std::int64_t kWidth = 256;
  const std::int64_t rows = elements / kWidth;
  const std::int64_t table = 4 * rows;
  const double n = static_cast<double>(elements);
  const at::Tensor ids = at::randint(table, {rows}, ids_);
  if (key_.kind == roofline::WorkKind::gather) {
    const at::Tensor weight = values({table, kWidth});
    return {bytes(2 * n), [=](int) { at::embedding(weight, ids); }};
  }
  const at::Tensor gradient = values({rows, kWidth});
  return {bytes(6 * n), [=](int) { at::embedding_dense_backward(gradient, ids, table, -1, false); }};
}

Bench::Makers Bench::probes() const {
  using enum roofline::WorkKind;
  const roofline::WorkKind kind = key_.kind;
  if (kind == product) return products();
  if (kind == batched_product) return batched_products();
  if (kind == attention || kind == attention_backward) return attentions(kind == attention_backward);
  if (kind == recurrence || kind == recurrence_backward) return recurrences(kind == recurrence_backward);
  if (is_computation(kind))
    return convolutions(kind == convolution_backward || kind == pointwise_backward || kind == stem_backward ||
                        kind == depthwise_backward);
  if (kind == transposition || (kind >= batch_norm && kind <= pooling_backward))
    return by_size([this](std::int64_t elements) { return image_probe(elements); });
  if (kind == gather || kind == scatter)
    return by_size([this](std::int64_t elements) { return index_probe(elements); });
  return by_size([this](std::int64_t elements) { return row_probe(elements); });
}

}  // namespace

RateCurve measure_curve(const RateKey& key, c10::Device device, const core::Clock& now) {
  const at::NoGradGuard no_grad;
  const Bench bench(key, device);
  RateCurve curve;
  for (const std::function<Probe()>& make : bench.probes()) {
    try {
      const Probe probe = make();
      const double seconds = usual_seconds(probe, device, now);
      curve.add(probe.work, seconds);
      if (seconds > kTooLong) break;
    } catch (const std::exception&) {  // an operator that the device or the type doesn't have
      break;
    }
  }
  return curve;
}

}  // namespace trainctl::plan
