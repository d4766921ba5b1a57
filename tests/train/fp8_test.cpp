// Training in eight bits on the CPU, which computes the numbers of a GPU.
#include <algorithm>
#include <catch2/catch.hpp>

#include "precision_losses.h"

namespace trainctl::train {

using namespace testing;

namespace {

/// On the CPU, with a batch that suits eight bits.
std::vector<double> losses(amp::Precision precision, const std::filesystem::path& directory,
                           const std::optional<std::filesystem::path>& resume_from = {}) {
  experiment::Experiment experiment = small_experiment();
  experiment.device.kind = runtime::DeviceKind::cpu;
  experiment.amp.mode = precision;
  experiment.dataset.batch_size = 16;
  return precision_losses(experiment, directory, resume_from);
}

}  // namespace

TEST_CASE("eight bits train nearly as floats do, and resume to the bit", "[train]") {
  const TemporaryDirectory directory;
  const std::vector<double> floats = losses(amp::Precision::fp32, directory.path() / "fp32");
  const std::vector<double> whole = losses(amp::Precision::fp8, directory.path() / "fp8");
  REQUIRE(whole.size() == floats.size());
  CHECK(whole != floats);
  for (std::size_t i = 0; i < floats.size(); ++i) CHECK(whole[i] == Approx(floats[i]).epsilon(5e-2).margin(5e-2));
  const std::vector<double> resumed = losses(amp::Precision::fp8, directory.path() / "resumed",
                                             directory.path() / "fp8" / "checkpoints" / "step_00000020");
  REQUIRE(resumed.size() == 2);
  CHECK(resumed[0] == whole[2]);
  CHECK(resumed[1] == whole[3]);
}

namespace {

/// Returns whether the run tells that nothing in it multiplies in eight bits.
bool tells_of_no_eight_bits(experiment::Experiment experiment) {
  experiment.amp.mode = amp::Precision::fp8;
  std::vector<tracking::Notice> notices;
  build(experiment, notices);
  return std::ranges::any_of(
      notices, [](const auto& notice) { return notice.text.find("multiples of 16") != std::string::npos; });
}

}  // namespace

TEST_CASE("fp8 without a layer that multiplies in eight bits is told", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  for (const std::int64_t width : {8, 16}) {
    experiment.model.network = model::MlpConfig{.hidden = {width}};
    CHECK(tells_of_no_eight_bits(experiment) == (width == 8));
  }
  experiment.dataset.source =
      dataset::SyntheticTokensConfig{.num_samples = 64, .num_eval_samples = 0, .seq_len = 8, .vocab_size = 32};
  experiment.task = task::CausalLmConfig{};
  experiment.model.network = model::LstmConfig{.hidden_size = 16, .num_layers = 1};  // has matrices, and no such layer
  CHECK(tells_of_no_eight_bits(experiment));
}

}  // namespace trainctl::train
