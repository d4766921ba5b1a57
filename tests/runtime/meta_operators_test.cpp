// Layouts of what operators give on fake tensors, against LibTorch's kernels for CPUs.
#include <ATen/ops/_adaptive_avg_pool2d.h>
#include <ATen/ops/_adaptive_avg_pool2d_backward.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/hardswish_backward.h>
#include <ATen/ops/hardtanh_backward.h>
#include <ATen/ops/log_sigmoid_backward.h>
#include <ATen/ops/log_sigmoid_forward.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/mse_loss_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <sstream>

#include "runtime/fake_tensor.h"

using namespace trainctl;
using namespace trainctl::runtime;

namespace {

using Tensors = std::vector<at::Tensor>;

class PieceAccount final : public FakeTensorAccount {
 public:
  std::int64_t take(std::int64_t bytes) override {
    held_[next_] = bytes;
    return next_++;
  }
  void give_back(std::int64_t piece) override { held_.erase(piece); }
  std::int64_t bytes_of(std::int64_t piece) const { return held_.contains(piece) ? held_.at(piece) : -1; }

 private:
  std::map<std::int64_t, std::int64_t> held_;
  std::int64_t next_ = 0;
};

std::string layouts(const Tensors& tensors) {
  std::ostringstream text;
  for (const at::Tensor& tensor : tensors)
    text << tensor.sizes() << " by " << tensor.strides() << " " << tensor.scalar_type() << "; ";
  return text.str();
}

at::Tensor image(at::MemoryFormat format = at::MemoryFormat::ChannelsLast) {
  return at::zeros({2, 4, 6, 6}).contiguous(format);
}
at::Tensor plain_image() {
  return image(at::MemoryFormat::Contiguous);
}
at::Tensor permuted() {
  return at::zeros({4, 5, 6}).permute({2, 0, 1});
}
at::Tensor volume() {
  return at::zeros({2, 4, 5, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast3d);
}

const std::map<std::string, std::function<Tensors()>>& cases() {
  static const std::map<std::string, std::function<Tensors()>> all{
      {"abs, channels last", [] { return Tensors{at::abs(image())}; }},
      {"abs, permuted", [] { return Tensors{at::abs(permuted())}; }},
      {"logical_not", [] { return Tensors{at::logical_not(image())}; }},
      {"logical_and", [] { return Tensors{at::logical_and(permuted(), permuted())}; }},
      {"where",
       [] {
         return Tensors{at::where(at::ones({2, 1, 6, 6}, at::kBool), image(), at::zeros({}, at::kFloat))};
       }},
      {"where, two types", [] { return Tensors{at::where(image().to(at::kBool), image(), image().to(at::kDouble))}; }},
      {"roll",
       [] {
         return Tensors{at::roll(permuted(), {1}, {1}), at::roll(image(), {1, 2}, {2, 3})};
       }},
      {"roll of all", [] { return Tensors{at::roll(image(), {1})}; }},
      {"hardswish_backward", [] { return Tensors{at::hardswish_backward(plain_image(), image())}; }},
      {"hardtanh_backward", [] { return Tensors{at::hardtanh_backward(plain_image(), image(), -1, 1)}; }},
      {"hardtanh_backward, expanded",
       [] {
         return Tensors{at::hardtanh_backward(at::zeros({}).expand({2, 4, 6, 6}), image(), -1, 1)};
       }},
      {"mse_loss_backward", [] { return Tensors{at::mse_loss_backward(image(), image(), image(), 0)}; }},
      {"log_sigmoid",
       [] {
         const auto [values, buffer] = at::log_sigmoid_forward(image());
         return Tensors{values, buffer, at::log_sigmoid_backward(image(), image(), buffer)};
       }},
      {"adaptive_avg_pool2d",
       [] {
         const at::Tensor input = plain_image().transpose(2, 3);
         const at::Tensor output = at::_adaptive_avg_pool2d(input, {3, 3});
         return Tensors{output, at::_adaptive_avg_pool2d_backward(output, input)};
       }},
      {"batch norm, permuted",
       [] {
         const at::Tensor values = at::ones({5});
         const auto [output, mean, deviation] =
             at::native_batch_norm(at::zeros({6, 4, 5}).transpose(1, 2), values, values, {}, {}, true, 0.1, 1e-5);
         return Tensors{output, mean, deviation};
       }},
      {"convolution of volumes, channels last",
       [] {
         return Tensors{at::convolution(volume(), at::zeros({8, 4, 3, 3, 3}), {}, {2}, {1}, {1}, false, {0}, 1)};
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("operators give fake tensors the layouts of real ones, and count them", "[runtime][regression]") {
  for (const auto& [name, call] : cases()) {
    CAPTURE(name);
    const std::string expected = layouts(call());
    const auto account = std::make_shared<PieceAccount>();
    const FakeTensorScope scope(at::kCPU, account, nullptr);
    const Tensors results = call();
    CHECK(layouts(results) == expected);
    for (const at::Tensor& result : results)
      if (is_fake(result)) CHECK(account->bytes_of(hollow_piece(result)) == static_cast<std::int64_t>(result.nbytes()));
  }
}

TEST_CASE("fake tensors choose the kernel of attention that real ones choose", "[runtime][regression]") {
  const auto choices = [] {
    const at::Tensor query = at::zeros({2, 3, 5, 8});
    const at::Tensor wide = at::zeros({2, 3, 5, 16});
    const at::Tensor columns = at::zeros({2, 3, 8, 5}).transpose(2, 3);
    const at::Tensor trained = at::zeros({2, 3, 5, 5}).requires_grad_(true);
    const auto choice = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask) {
      return at::_fused_sdp_choice(q, k, v, mask.defined() ? std::optional(mask) : std::nullopt);
    };
    return std::vector<std::int64_t>{choice(query, query, query, {}),
                                     choice(query, query, wide, {}),
                                     choice(columns, query, query, {}),
                                     choice(query, query, query, trained),
                                     choice(query, query, query, trained.detach()),
                                     choice(query, query, query, at::zeros({3, 5, 5}))};
  };
  const std::vector<std::int64_t> expected = choices();
  const FakeTensorScope scope(at::kCPU, std::make_shared<PieceAccount>(), nullptr);
  CHECK(choices() == expected);
}

TEST_CASE("convolutions of fake tensors refuse the sizes that those of real ones refuse", "[runtime][regression]") {
  const auto refuses = [](at::IntArrayRef input, at::IntArrayRef weight, bool transposed, std::int64_t groups) {
    try {
      at::convolution(at::zeros(input), at::zeros(weight), {}, {2}, {0}, {1}, transposed, {0}, groups);
    } catch (const c10::Error&) {
      return true;
    }
    return false;
  };
  const auto answers = [&] {
    return std::vector<bool>{
        refuses({2, 4, 6, 6}, {8, 4, 3, 3}, false, 1), refuses({2, 4, 6, 6}, {8, 2, 3, 3}, false, 2),
        refuses({2, 4, 6, 6}, {8, 2, 3, 3}, false, 1), refuses({2, 4, 2, 6}, {8, 4, 3, 3}, false, 1),
        refuses({2, 4, 6}, {8, 4, 3, 3}, false, 1),    refuses({2, 4, 6, 6}, {4, 8, 3, 3}, true, 1),
        refuses({2, 4, 6, 6}, {8, 4, 3, 3}, true, 1),  refuses({2, 4, 1, 1}, {4, 8, 3, 3}, true, 1)};
  };
  const std::vector<bool> expected = answers();
  CHECK(expected == std::vector<bool>{false, false, true, true, true, false, true, false});
  const FakeTensorScope scope(at::kCPU, std::make_shared<PieceAccount>(), nullptr);
  CHECK(answers() == expected);
}
