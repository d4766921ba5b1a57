#include "distributed/offload.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "distributed/offloaded_optimizer.h"
#include "runtime/memory.h"
#include "support/map_state.h"
#include "support/temporary_directory.h"

namespace trainctl::distributed {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

TEST_CASE("a tensor on disk keeps its values while it is put away, and takes no memory", "[distributed]") {
  const TemporaryDirectory directory;
  const std::unique_ptr<OffloadMemory> disk = disk_offload_memory(directory.path() / "made");
  const at::Tensor values = at::arange(1'000'003, at::kFloat);
  runtime::install_host_allocator(runtime::HostMemory::cached);
  const std::int64_t before = runtime::host_memory().current;
  const at::Tensor first = disk->zeros_like(values);
  const at::Tensor second = disk->zeros_like(values.view({-1, 1}));
  CHECK(first.count_nonzero().item<std::int64_t>() == 0);
  CHECK(second.sizes() == at::IntArrayRef({1'000'003, 1}));
  first.copy_(values);
  for (int round = 0; round < 3; ++round) {
    disk->put_away(first);
    disk->put_away(first.narrow(0, 1000, 5));
    disk->bring(first);
    CHECK(at::equal(first, values));
    first.add_(1);
    values.add_(1);
  }
  CHECK(second.count_nonzero().item<std::int64_t>() == 0);
  CHECK(runtime::host_memory().current - before < 1000);
  CHECK(fs::is_empty(directory.path() / "made"));
  disk->bring(values);  // of other memory
  disk->put_away(values);
  disk->put_away(disk->zeros_like(at::zeros({0})));
}

TEST_CASE("a tensor on disk outlives the memory that it is of", "[distributed]") {
  const TemporaryDirectory directory;
  std::unique_ptr<OffloadMemory> disk = disk_offload_memory(directory.path());
  const at::Tensor tensor = disk->zeros_like(at::zeros({5000}, at::kDouble));
  disk.reset();
  tensor.fill_(3);
  CHECK(tensor.sum().item<double>() == 15'000);
}

TEST_CASE("a disk that is full, or no directory, is an error that says so", "[distributed]") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "file") << "x";
  CHECK_THROWS_WITH(disk_offload_memory(directory.path() / "file"), Catch::Contains("file"));
  CHECK_THROWS_WITH(disk_offload_memory("/proc/none"), Catch::Contains("/proc/none"));
  const std::unique_ptr<OffloadMemory> disk = disk_offload_memory(directory.path());
  const at::Tensor huge = at::zeros({1}).expand({std::int64_t{1} << 55});
  try {
    disk->zeros_like(huge);
    FAIL("a disk of 128 PiB?");
  } catch (const core::Error& error) {
    CHECK_THAT(error.text(), Catch::Contains(directory.path().string()) && Catch::Contains("No space left") &&
                                 Catch::Contains("are left there"));
  }
}

TEST_CASE("an optimizer streamed from disk updates as one in memory, and shows the same state", "[distributed]") {
  const TemporaryDirectory directory;
  const std::unique_ptr<OffloadMemory> disk = disk_offload_memory(directory.path());
  const auto units = [] {
    std::vector<OptimizedUnit> made;
    for (int unit = 0; unit < 3; ++unit) {
      OptimizedUnit parameters;
      for (const char* name : {"weight", "bias"})
        parameters.push_back({.name = std::to_string(unit) + "." + name,
                              .tensor = at::arange(3000, at::kFloat).mul(0.01).sin().requires_grad_(true),
                              .num_dims = *name == 'w' ? 2 : 1});
      made.push_back(std::move(parameters));
    }
    return made;
  };
  const auto flat = [](const std::vector<OptimizedUnit>& all) {
    std::vector<optimizer::OptimizedParameter> parameters;
    for (const OptimizedUnit& unit : all) parameters.insert(parameters.end(), unit.begin(), unit.end());
    return parameters;
  };
  optimizer::OptimizerConfig adamw;
  adamw.rule = optimizer::AdamWConfig{};
  optimizer::OptimizerConfig sgd;
  sgd.rule = optimizer::SgdConfig{.momentum = 0.9};
  optimizer::OptimizerConfig rmsprop;
  rmsprop.rule = optimizer::RmspropConfig{};
  for (const optimizer::OptimizerConfig& config : {adamw, sgd, rmsprop}) {
    CAPTURE(config.rule.kind());
    const std::vector<OptimizedUnit> here = units();
    const std::vector<OptimizedUnit> there = units();
    const std::unique_ptr<optimizer::Optimizer> in_memory = optimizer::build(config, flat(here));
    const std::unique_ptr<optimizer::Optimizer> on_disk = build_offloaded(config, there, *disk);
    const auto step = [&](const std::vector<OptimizedUnit>& all, optimizer::Optimizer& optimizer, double slope) {
      for (const optimizer::OptimizedParameter& parameter : flat(all))
        parameter.tensor.mutable_grad() = parameter.tensor.detach().mul(slope).cos();
      optimizer.step(0.01, {});
    };
    for (int i = 1; i < 5; ++i) {
      step(here, *in_memory, i);
      step(there, *on_disk, i);
    }
    testing::MapState state = testing::MapState::of(*on_disk);
    CHECK(state.equals(testing::MapState::of(*in_memory)));
    step(there, *on_disk, 9);
    state.restore_into(*on_disk);
    CHECK(testing::MapState::of(*on_disk).equals(testing::MapState::of(*in_memory)));
  }
}

}  // namespace
}  // namespace trainctl::distributed
