#include "checkpoint/average.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <limits>

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "support/temporary_directory.h"

using namespace trainctl;
using namespace trainctl::checkpoint;

namespace {

ShownState state_of(std::int64_t step) {
  ShownState state;
  state.tensors["model.weight"] = {at::randn({5, 7}), std::nullopt};
  state.tensors["model.half"] = {at::randn({9}).to(at::kBFloat16), std::nullopt};
  state.tensors["model.bn.running_mean"] = {at::randn({4}), std::nullopt};
  state.tensors["model.bn.num_batches_tracked"] = {at::tensor(step), std::nullopt};
  state.tensors["ema.average.weight"] = {at::randn({5, 7}), std::nullopt};
  state.tensors["optimizer.exp_avg.weight"] = {at::randn({5, 7}), std::nullopt};
  state.values["step"] = step;
  return state;
}

}  // namespace

TEST_CASE("an average is PyTorch's mean of the weights, and the newest checkpoint otherwise", "[checkpoint]") {
  const testing::TemporaryDirectory directory;
  CheckpointConfig config;
  config.keep_last = 3;
  Saver saver(directory.path(), config);
  std::vector<ShownState> states;
  for (const std::int64_t step : {10, 20, 30}) {
    states.push_back(state_of(step));
    saver.save(states.back(), {.step = step, .metrics = {{"loss", 0.5}}});
  }
  saver.finish();
  const auto step = [&](const char* name) { return directory.path() / name; };
  const RunningStatistics statistics =
      write_average({step("step_00000030"), step("step_00000020"), step("step_00000010")}, step("average"));
  CHECK(statistics == RunningStatistics::averaged);

  const Checkpoint average(step("average"));
  const TensorMap tensors = average.read_whole();
  const auto mean = [&](const char* name) {
    std::vector<at::Tensor> values;
    for (const ShownState& state : states) values.push_back(state.tensors.at(name).tensor.to(at::kDouble));
    return at::stack(values).mean(0);
  };
  for (const char* name : {"model.weight", "model.bn.running_mean", "ema.average.weight"})
    CHECK(tensors.at(name).to(at::kDouble).sub(mean(name)).abs().max().item<double>() < 1e-7);
  CHECK(at::equal(tensors.at("model.half"), mean("model.half").to(at::kBFloat16)));
  CHECK(tensors.at("model.bn.num_batches_tracked").item<std::int64_t>() == 30);
  const char* const momentum = "optimizer.exp_avg.weight";
  CHECK(at::equal(tensors.at(momentum), states.back().tensors.at(momentum).tensor));
  CHECK(average.info().step == 30);
  CHECK(average.info().metrics.empty());
  CHECK(find_newest(step("average"))->step == 30);
  CHECK(find_newest(directory.path())->path == step("step_00000030"));  // the average isn't one of the run's own
}

TEST_CASE("checkpoints of different models have no average", "[checkpoint]") {
  const testing::TemporaryDirectory directory;
  Saver saver(directory.path(), {});
  ShownState state = state_of(1);
  saver.save(state, {.step = 1});
  state.tensors["model.weight"] = {at::randn({5, 8}), std::nullopt};
  saver.save(state, {.step = 2});
  saver.finish();
  CHECK_THROWS_WITH(write_average({directory.path() / "step_00000002", directory.path() / "step_00000001"},
                                  directory.path() / "average"),
                    Catch::Contains("model.weight differs"));
  CHECK_FALSE(std::filesystem::exists(directory.path() / "average"));
}

TEST_CASE("a checkpoint whose weights are not finite has no average", "[checkpoint][regression]") {
  const testing::TemporaryDirectory directory;
  Saver saver(directory.path(), {});
  ShownState state = state_of(1);
  saver.save(state, {.step = 1});
  state.tensors["ema.average.weight"].tensor.select(0, 2).fill_(std::numeric_limits<float>::quiet_NaN());
  saver.save(state, {.step = 2});
  saver.finish();
  CHECK_THROWS_WITH(write_average({directory.path() / "step_00000001", directory.path() / "step_00000002"},
                                  directory.path() / "average"),
                    Catch::Contains("ema.average.weight") && Catch::Contains("step_00000002"));
  CHECK_FALSE(std::filesystem::exists(directory.path() / "average"));
}
