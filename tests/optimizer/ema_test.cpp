#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch.hpp>

#include "optimizer/optimizer.h"
#include "support/map_state.h"
#include "support/reference.h"

namespace trainctl::optimizer::ema_test {
namespace {

using testing::MapState;

struct Weights {
  std::vector<OptimizedParameter> parameters{{"weight", at::zeros({3, 5}).requires_grad_()},
                                             {"bias", at::zeros({3}).requires_grad_()}};
  const at::Tensor& weight = parameters[0].tensor;

  void set(double value) const {
    for (const OptimizedParameter& parameter : parameters) parameter.tensor.detach().fill_(value);
  }
};

TEST_CASE("the average is that of torch.optim.swa_utils", "[optimizer]") {
  const auto expected = testing::reference("optimizers.py", "averaging");
  const Weights weights;
  Ema ema({.decay = 0.9}, weights.parameters);
  for (std::int64_t step = 0; step < 12; ++step) {
    for (const OptimizedParameter& parameter : weights.parameters)
      parameter.tensor.detach().copy_(expected.at(std::to_string(step) + "." + parameter.name));
    ema.update(step);
  }
  ema.swap();
  for (const OptimizedParameter& parameter : weights.parameters)
    CHECK(parameter.tensor.allclose(expected.at("average." + parameter.name), 1e-6, 1e-7));
}

TEST_CASE("swapping exchanges the weights in place and back", "[optimizer]") {
  const Weights weights;
  const at::Tensor alias = weights.weight;      // as the model holds it
  const void* const memory = alias.data_ptr();  // which may be a part of what is sent between ranks
  Ema ema({.decay = 0.5}, weights.parameters);
  weights.set(1);
  ema.update(0);
  weights.set(3);
  ema.update(1);
  for (int round = 0; round < 2; ++round) {
    ema.swap();
    CHECK(alias.equal(at::full({3, 5}, 2.0)));
    CHECK(alias.requires_grad());
    CHECK(alias.is_leaf());
    CHECK(alias.data_ptr() == memory);
    ema.swap();
    CHECK(alias.equal(at::full({3, 5}, 3.0)));
    CHECK(alias.data_ptr() == memory);
  }
  weights.weight.sum().backward();  // gradients still arrive
  CHECK(alias.grad().equal(at::full({3, 5}, 1.0)));
}

TEST_CASE("before its start the average is the weights, and `every` skips steps", "[optimizer]") {
  const Weights weights;
  Ema ema({.decay = 0.5, .every = 2, .start = 3}, weights.parameters);
  const auto average = [&] { return MapState::of(ema).tensors.at("average.weight")[0][0].item<double>(); };
  const std::vector<double> expected{1, 2, 3, 4, 4, 5, 5, 6.5};  // averaged after steps 3, 5 and 7
  for (std::int64_t step = 0; step < 8; ++step) {
    weights.set(static_cast<double>(step + 1));
    ema.update(step);
    INFO("step " << step);
    CHECK(average() == expected[static_cast<std::size_t>(step)]);
  }
}

TEST_CASE("a restored average with a later start is the weights until then", "[optimizer][regression]") {
  const Weights weights;
  Ema before({.decay = 0.5}, weights.parameters);
  for (std::int64_t step = 0; step < 4; ++step) {
    weights.set(static_cast<double>(step));
    before.update(step);
  }
  MapState saved = MapState::of(before);
  Ema after({.decay = 0.5, .start = 6}, weights.parameters);
  saved.restore_into(after);
  for (std::int64_t step = 4; step < 7; ++step) {
    weights.set(static_cast<double>(step));
    after.update(step);
    CHECK(MapState::of(after).tensors.at("average.weight")[0][0].item<double>() == static_cast<double>(step));
  }
}

TEST_CASE("a restored average goes on as if uninterrupted, also before its start", "[optimizer]") {
  for (const std::int64_t cut : {1, 4, 7}) {
    const Weights weights, others;
    Ema whole({.decay = 0.7, .start = 3}, weights.parameters);
    auto part = std::make_unique<Ema>(EmaConfig{.decay = 0.7, .start = 3}, others.parameters);
    for (std::int64_t step = 0; step < 10; ++step) {
      for (const Weights* set : {&weights, &others}) set->set(1.0 / static_cast<double>(step + 1));
      whole.update(step);
      part->update(step);
      if (step == cut) {
        MapState saved = MapState::of(*part);
        part = std::make_unique<Ema>(EmaConfig{.decay = 0.7, .start = 3}, others.parameters);
        saved.restore_into(*part);
      }
    }
    CHECK(MapState::of(whole).equals(MapState::of(*part)));
  }
}

}  // namespace
}  // namespace trainctl::optimizer::ema_test
