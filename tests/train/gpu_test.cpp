#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>

#include <catch2/catch.hpp>

#include "precision_losses.h"
#include "support/gpu.h"

namespace trainctl::train {

using namespace testing;

namespace {

std::vector<double> losses(runtime::DeviceKind device, amp::Precision precision, const std::filesystem::path& directory,
                           const std::optional<std::filesystem::path>& resume_from = {}) {
  experiment::Experiment experiment = small_experiment();
  experiment.device.kind = device;
  experiment.amp.mode = precision;
  return precision_losses(experiment, directory, resume_from);
}

}  // namespace

TEST_CASE("a GPU trains like the CPU, in every precision", "[train][gpu]") {
  need_gpu();
  const TemporaryDirectory directory;
  const std::vector<double> expected = losses(runtime::DeviceKind::cpu, amp::Precision::fp32, directory.path() / "cpu");
  // 24, 11, 8, 11 and 4 bits of mantissa; the losses of 40 steps stay close all the same.
  const std::vector<std::pair<amp::Precision, double>> tolerances = {{amp::Precision::fp32, 2e-3},
                                                                     {amp::Precision::tf32, 2e-2},
                                                                     {amp::Precision::bf16, 6e-2},
                                                                     {amp::Precision::fp16, 3e-2},
                                                                     {amp::Precision::fp8, 1e-1}};
  for (const auto& [precision, tolerance] : tolerances) {
    const auto measured =
        losses(runtime::DeviceKind::cuda, precision, directory.path() / std::to_string(static_cast<int>(precision)));
    REQUIRE(measured.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(measured[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

TEST_CASE("a step recorded on a GPU trains like one that is started kernel by kernel", "[train][gpu]") {
  need_gpu();
  const TemporaryDirectory directory;
  for (const amp::Precision precision : {amp::Precision::fp32, amp::Precision::fp16}) {
    experiment::Experiment experiment = small_experiment();
    experiment.device.kind = runtime::DeviceKind::cuda;
    experiment.amp.mode = precision;
    experiment.optimizer.clip_norm = 1;
    const std::vector<double> expected = precision_losses(experiment, directory.path() / "started");
    experiment.train.graph = Graph::whole_step;
    const std::vector<double> recorded = precision_losses(experiment, directory.path() / "recorded");
    REQUIRE(recorded.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(recorded[i] == Approx(expected[i]).epsilon(2e-3).margin(2e-3));
  }
}

TEST_CASE("a GPU run resumes where it was", "[train][gpu]") {
  need_gpu();
  const TemporaryDirectory directory;
  const auto whole = losses(runtime::DeviceKind::cuda, amp::Precision::fp16, directory.path() / "whole");
  const auto resumed = losses(runtime::DeviceKind::cuda, amp::Precision::fp16, directory.path() / "resumed",
                              directory.path() / "whole" / "checkpoints" / "step_00000020");
  REQUIRE(resumed.size() == 2);
  CHECK(resumed[0] == Approx(whole[2]).epsilon(1e-3));
  CHECK(resumed[1] == Approx(whole[3]).epsilon(1e-3));
}

TEST_CASE("page-locked batches of bytes reach the GPU as the host's floats", "[train][gpu]") {
  need_gpu();
  experiment::Experiment experiment = small_experiment();
  experiment.device.kind = runtime::DeviceKind::cuda;
  const std::unique_ptr<Run> run = build_run(experiment);
  experiment.device.kind = runtime::DeviceKind::cpu;
  const std::unique_ptr<Run> reference = build_run(experiment);
  DeviceFeed feed(run->device, at::MemoryFormat::Contiguous, run->data.train->spec().to_normalize);
  for (int i = 0; i < 20; ++i) {
    const std::optional<dataset::Batch> expected = reference->data.train->next();
    std::optional<dataset::Batch> given = run->data.train->next();
    REQUIRE(expected.has_value() == given.has_value());
    if (given) CHECK(at::allclose(feed(std::move(*given)).inputs.cpu(), expected->inputs, 0, 1e-6));
  }
}

}  // namespace trainctl::train
