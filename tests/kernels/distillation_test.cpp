#include "kernels/distillation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/linear_cross_entropy.h"

namespace trainctl::kernels::distillation_test {
namespace {

constexpr std::int64_t kRows = 23;
constexpr std::int64_t kClasses = 41;

double gap(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

/// PyTorch's own divergence of rows, times T².
at::Tensor divergence(const at::Tensor& student, const at::Tensor& teacher, double temperature) {
  return at::kl_div(at::log_softmax(student.div(temperature), 1), at::log_softmax(teacher.div(temperature), 1),
                    at::Reduction::None, /*log_target=*/true)
      .sum(1)
      .mul(temperature * temperature);
}

TEST_CASE("a row's loss towards a teacher and its gradient are those of PyTorch's kl_div", "[kernels]") {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    const at::Tensor student = at::randn({kRows, kClasses}, at::kDouble).mul(3).requires_grad_();
    const at::Tensor teacher = at::randn({kRows, kClasses}, at::kDouble).mul(3);
    const at::Tensor expected = divergence(student, teacher, temperature);
    expected.sum().backward();
    const DistillationRows rows = distillation_rows(student.detach(), teacher, temperature);
    CHECK(gap(rows.losses, expected) < 1e-12);
    CHECK(gap(rows.gradient, student.grad()) < 1e-13);
    const at::Tensor wanted = student.grad().clone();
    student.mutable_grad() = at::Tensor();
    const at::Tensor losses = distillation_losses(student, teacher, temperature);
    losses.sum().backward();
    CHECK(gap(losses, expected) < 1e-12);
    CHECK(gap(student.grad(), wanted) < 1e-13);
  }
}

/// A projection to classes, and rows that some of which have no target.
struct Setting {
  at::Tensor hidden = at::randn({kRows, 8}, at::kDouble).requires_grad_();
  at::Tensor weight = at::randn({kClasses, 8}, at::kDouble).requires_grad_();
  at::Tensor bias = at::randn({kClasses}, at::kDouble).requires_grad_();
  at::Tensor targets =
      at::randint(kClasses, {kRows}, at::kLong).masked_fill(at::arange(kRows, at::kLong).remainder(3).eq(1), -100);

  at::Tensor logits(double softcap) const {
    const at::Tensor all = hidden.matmul(weight.t()).add(bias);
    return softcap > 0 ? all.div(softcap).tanh().mul(softcap) : all;
  }
  at::Tensor row_losses(double softcap, double smoothing) const {
    return at::cross_entropy_loss(logits(softcap), targets, {}, at::Reduction::None, -100, smoothing);
  }
  std::vector<at::Tensor> gradients_of(const at::Tensor& loss) {
    for (at::Tensor* tensor : {&hidden, &weight, &bias}) tensor->mutable_grad() = at::Tensor();
    loss.backward();
    return {hidden.grad().clone(), weight.grad().clone(), bias.grad().clone()};
  }
  void check(const at::Tensor& loss, const at::Tensor& expected) {
    CHECK(loss.item<double>() == Approx(expected.item<double>()).epsilon(1e-12));
    const std::vector<at::Tensor> gradients = gradients_of(loss);
    const std::vector<at::Tensor> wanted = gradients_of(expected);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(gap(gradients[i], wanted[i]) < 1e-11);
  }
};

TEST_CASE("cross-entropy of a projection beside a teacher is that of whole logits, whatever the chunks", "[kernels]") {
  Setting setting;
  const at::Tensor valid = setting.targets.ge(0).to(at::kDouble);
  for (const double softcap : {0.0, 5.0})
    for (const std::int64_t chunk : {0, 1, 7}) {
      LinearTeacher teacher{.hidden = at::randn({kRows, 5}, at::kDouble),
                            .weight = at::randn({kClasses, 5}, at::kDouble),
                            .bias = at::randn({kClasses}, at::kDouble),
                            .softcap = softcap,
                            .temperature = 2,
                            .share = 0.3};
      LinearCrossEntropyOptions options{.label_smoothing = 0.1, .chunk_size = chunk};
      options.softcap = softcap;
      options.teacher = &teacher;
      at::Tensor wanted = teacher.hidden.matmul(teacher.weight.t()).add(teacher.bias);
      if (softcap > 0) wanted = wanted.div(softcap).tanh().mul(softcap);
      const at::Tensor expected =
          setting.row_losses(softcap, 0.1).mul(0.7).add(divergence(setting.logits(softcap), wanted, 2).mul(valid), 0.3);
      setting.check(linear_cross_entropy(setting.hidden, setting.weight, setting.bias, setting.targets, options),
                    expected.sum());
      const at::NoGradGuard no_grad;
      CHECK(
          linear_cross_entropy(setting.hidden, setting.weight, setting.bias, setting.targets, options).item<double>() ==
          Approx(expected.sum().item<double>()).epsilon(1e-12));
    }
}

TEST_CASE("losses of the rows of a projection are those of whole logits, whatever they count", "[kernels]") {
  Setting setting;
  const at::Tensor counts = at::randn({kRows}, at::kDouble);
  for (const double softcap : {0.0, 5.0})
    for (const std::int64_t chunk : {0, 1, 7}) {
      LinearCrossEntropyOptions options{.label_smoothing = 0.1, .chunk_size = chunk};
      options.softcap = softcap;
      const auto losses = [&] {
        return linear_cross_entropy_rows(setting.hidden, setting.weight, setting.bias, setting.targets, options);
      };
      const auto expected = [&] { return setting.row_losses(softcap, 0.1); };
      CHECK(gap(losses(), expected()) < 1e-12);
      setting.check(losses().mul(counts).sum(), expected().mul(counts).sum());
      setting.check(losses().square().sum(), expected().square().sum());
    }
}

TEST_CASE("losses of rows follow autocast's precision, and their gradients have the weights' own", "[kernels]") {
  Setting setting;
  const at::Tensor hidden = setting.hidden.detach().to(at::kBFloat16).requires_grad_();
  const at::Tensor weight = setting.weight.detach().to(at::kBFloat16).requires_grad_();
  const at::Tensor losses = linear_cross_entropy_rows(hidden, weight, {}, setting.targets);
  CHECK(losses.scalar_type() == at::kFloat);
  losses.sum().backward();
  CHECK(hidden.grad().scalar_type() == at::kBFloat16);
  CHECK(weight.grad().scalar_type() == at::kBFloat16);
}

}  // namespace
}  // namespace trainctl::kernels::distillation_test
