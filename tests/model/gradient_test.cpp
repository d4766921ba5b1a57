// Gradients of the hand-made networks against finite differences, in double precision.
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "model/model_support.h"

namespace trainctl::model::gradient_test {
namespace {

/// Hundreds of forward passes over a few pixels: waking more threads costs far more than they save.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

/// Central differences of `(forward(input) * cotangent).sum()` at a few places of every parameter. Where a ReLU turns
/// on within the step, the quotient is a mean of two slopes; such a place is measured again with a tenth of the step.
void check_gradients(Model& model, const at::Tensor& input, const at::Tensor& cotangent) {
  const auto value = [&] { return model.forward(input).mul(cotangent).sum(); };
  const at::Tensor loss = value();
  loss.backward();
  const double at_rest = loss.item<double>();
  const c10::NoGradGuard no_grad;
  model.visit_parameters([&](const std::string& name, TensorDecl& decl) {
    const at::Tensor flat = decl.value.detach().view({-1});
    const at::Tensor gradient = decl.value.grad().reshape({-1});
    for (const std::int64_t i : {std::int64_t{0}, flat.numel() / 3, flat.numel() - 1}) {
      const double before = flat[i].item<double>();
      const auto value_at = [&](double moved) {
        flat[i].fill_(moved);
        const double moved_value = value().item<double>();
        flat[i].fill_(before);
        return moved_value;
      };
      double slope = 0;
      for (const double step : {1e-6, 1e-7, 1e-8}) {
        const double above = value_at(before + step);
        const double below = value_at(before - step);
        slope = (above - below) / (2 * step);
        const bool is_smooth = std::abs(above - 2 * at_rest + below) / step < 2e-6;
        if (is_smooth) break;
      }
      INFO(name << "[" << i << "]");
      CHECK(gradient[i].item<double>() == Approx(slope).epsilon(1e-5).margin(1e-6));
    }
  });
}

void check_network(NetworkConfig network, const InputSpec& input) {
  const OneThread one_thread;
  const auto model = testing::ready_model(std::move(network), input);
  testing::make_double(*model);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor images = at::randn({3, input.shape[0], input.shape[1], input.shape[2]}, options);
  check_gradients(*model, images, at::randn({3, input.num_classes}, options));
}

TEST_CASE("gradients of the mlp agree with finite differences", "[model]") {
  check_network(MlpConfig{.hidden = {7, 5}, .dropout = 0, .num_classes = {}}, {.shape = {1, 4, 4}, .num_classes = 3});
}

TEST_CASE("gradients of the cnn agree with finite differences", "[model]") {
  for (const bool batch_norm : {false, true}) {
    CnnConfig config;
    config.channels = {3, 4, 5};
    config.num_pools = 2;
    config.batch_norm = batch_norm;
    config.hidden = 6;
    check_network(config, {.shape = {2, 9, 8}, .num_classes = 4});
  }
}

TEST_CASE("gradients of the wide residual network agree with finite differences", "[model]") {
  WideResNetConfig config;
  config.depth = 10;
  config.widen_factor = 1;
  check_network(config, {.shape = {3, 8, 8}, .num_classes = 4});
}

}  // namespace
}  // namespace trainctl::model::gradient_test
