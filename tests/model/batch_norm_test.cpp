#include "model/layers/batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "model/model_support.h"

namespace trainctl::model::batch_norm_test {
namespace {

/// A cnn whose first convolution sees the input alone, so that its BatchNorm's input doesn't depend on the batch's
/// size.
std::unique_ptr<Model> model_with_norm() {
  CnnConfig config;
  config.channels = {6};
  config.batch_norm = true;
  return testing::ready_model(config, {.shape = {3, 8, 8}, .num_classes = 4});
}

TEST_CASE("four micro-batches and a commit leave the running statistics of one large batch", "[model]") {
  const at::Tensor images = at::randn({128, 3, 8, 8}).mul_(3).add_(100);  // far from 0, where sums of squares cancel
  const auto once = model_with_norm();
  const auto split = model_with_norm();
  set_running_statistics(*split, RunningStatistics::on_commit);
  for (int step = 0; step < 3; ++step) {
    once->forward(images);
    for (const auto& [begin, end] : {std::pair{0, 32}, {32, 64}, {64, 71}, {71, 128}})
      split->forward(images.slice(0, begin, end));
    if (step == 0) CHECK(named_buffers(*split)[2].tensor.item<std::int64_t>() == 0);  // nothing before the commit
    commit_running_statistics(*split);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    INFO(named_buffers(*once)[i].name);
    CHECK(testing::difference(named_buffers(*split)[i].tensor, named_buffers(*once)[i].tensor) < 1e-6);
  }
}

TEST_CASE("a commit without a forward pass since the last changes nothing", "[model]") {
  const auto model = model_with_norm();
  set_running_statistics(*model, RunningStatistics::on_commit);
  model->forward(at::randn({4, 3, 8, 8}));
  commit_running_statistics(*model);
  const at::Tensor mean = named_buffers(*model)[0].tensor.clone();
  commit_running_statistics(*model);
  CHECK(named_buffers(*model)[0].tensor.equal(mean));
  CHECK(named_buffers(*model)[2].tensor.item<std::int64_t>() == 1);
}

TEST_CASE("evaluation uses the running statistics and leaves them alone", "[model]") {
  const auto model = model_with_norm();
  model->forward(at::randn({8, 3, 8, 8}));
  model->set_training(false);
  const at::Tensor mean = named_buffers(*model)[0].tensor.clone();
  const at::Tensor images = at::randn({4, 3, 8, 8});
  const at::Tensor together = model->forward(images);
  CHECK(named_buffers(*model)[0].tensor.equal(mean));
  CHECK(testing::difference(model->forward(images.slice(0, 0, 1)), together.slice(0, 0, 1)) < 1e-6);
}

TEST_CASE("the input's gradient over ranks is rounded once in mixed precision", "[model][regression]") {
  const BatchRanks alone{.gather = [](const at::Tensor& mine) { return mine.unsqueeze(0); },
                         .sum = [](at::Tensor&) {},
                         .has_samples = [] { return true; }};
  BatchNorm norm(4, /*weight=*/1.5);
  const auto fill = [](const std::string&, TensorDecl& decl) {
    decl.value = at::full(decl.value.sizes(), decl.init.a, decl.value.options().device(at::kCPU));
  };
  norm.visit_parameters(fill);
  norm.visit_buffers(fill);
  norm.synchronize(alone);
  const at::Tensor noise = at::randn({16, 4, 8, 8});
  const at::Tensor input = noise.add(3).to(at::kBFloat16).requires_grad_();
  const at::Tensor gradient = at::randn({16, 4, 8, 8}).add_(noise, 0.5).add_(0.5).to(at::kBFloat16);
  norm.forward(input).backward(gradient);

  const at::Tensor exact_input = input.detach().to(at::kDouble).requires_grad_();
  at::batch_norm(exact_input, at::full({4}, 1.5, at::kDouble), {}, {}, {}, /*training=*/true, /*momentum=*/0, 1e-5,
                 /*cudnn_enabled=*/false)
      .backward(gradient.to(at::kDouble));
  const at::Tensor exact = exact_input.grad();
  const at::Tensor error = input.grad().to(at::kDouble).sub(exact);
  // bf16 alone rounds by 0.0017 of the norm. Its errors don't add up over a channel, whose exact gradients have sum 0.
  CHECK(input.grad().scalar_type() == at::kBFloat16);
  CHECK(error.norm().item<double>() < 0.0025 * exact.norm().item<double>());
  CHECK(testing::largest(error.sum({0, 2, 3})) < 1);
}

TEST_CASE("training on one value per channel is refused", "[model]") {
  CnnConfig config;
  config.channels = {4};
  config.batch_norm = true;
  config.num_pools = 0;
  const auto model = testing::ready_model(config, {.shape = {1, 1, 1}, .num_classes = 2});
  CHECK_THROWS_WITH(model->forward(at::randn({1, 1, 1, 1})), Catch::Contains("one value per channel"));
}

}  // namespace
}  // namespace trainctl::model::batch_norm_test
