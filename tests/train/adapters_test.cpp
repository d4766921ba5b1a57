// Runs that train low-rank adapters alone, and runs of the networks that take patches or tokens.
#include <catch2/catch.hpp>

#include <set>

#include "checkpoint/safetensors.h"
#include "small_run.h"
#include "train/loop/stop_signal.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::train {

using namespace testing;

namespace {

experiment::Experiment small_vit() {
  experiment::Experiment experiment = small_experiment();
  model::VitConfig vit;
  vit.hidden_size = 16;
  vit.num_layers = 2;
  vit.num_heads = 2;
  vit.intermediate_size = 32;
  vit.patch_size = 4;
  vit.dropout = vit.attention_dropout = vit.drop_path = 0.1;
  experiment.model.network = vit;
  return experiment;
}

experiment::Experiment with_adapters() {
  experiment::Experiment experiment = small_vit();
  experiment.model.lora = model::LoraConfig{.rank = 2, .alpha = 4, .dropout = 0.1, .target_modules = {"qkv", "mlp.*"}};
  experiment.checkpoint.every = 8;
  return experiment;
}

struct Trained {
  std::unique_ptr<Run> run;
  EventLog log;
};

void train(Trained& trained, const experiment::Experiment& experiment, const std::filesystem::path& directory,
           const std::optional<std::filesystem::path>& resume_from = {}) {
  trained.run = build_run(experiment);
  const StopSignal stop;
  if (resume_from) restore(*trained.run, *resume_from, {}, trained.log);
  Trainer trainer(*trained.run, trained.log, stop, {.run_directory = directory, .config = {}});
  REQUIRE(trainer.run() == 0);
}

}  // namespace

TEST_CASE("a run with adapters changes them and the head alone, and keeps optimizer state for no more", "[train]") {
  const TemporaryDirectory directory;
  std::map<std::string, at::Tensor> before;
  for (const model::NamedTensor& named : model::named_parameters(*build_run(with_adapters())->model))
    before[named.name] = named.tensor.detach().clone();
  Trained trained;
  train(trained, with_adapters(), directory.path());
  std::set<std::string> expected{"head.weight", "head.bias"};
  for (const model::NamedTensor& named : model::named_parameters(*trained.run->model)) {
    INFO(named.name);
    if (named.name.find("lora_") != std::string::npos) expected.insert(named.name);
    CHECK(named.tensor.equal(before.at(named.name)) != expected.contains(named.name));
  }
  CHECK(expected.size() == 2 + 2 * 3 * 2);
  std::set<std::string> optimized;
  const std::string prefix = "optimizer.exp_avg.";
  for (const auto& [name, tensor] :
       checkpoint::read_safetensors(directory.path() / "checkpoints" / "step_00000016" / "state.safetensors"))
    if (name.starts_with(prefix)) optimized.insert(name.substr(prefix.size()));
  CHECK(optimized == expected);
}

TEST_CASE("a run with adapters resumes bit for bit", "[train]") {
  const TemporaryDirectory whole, half;
  Trained uninterrupted, resumed;
  train(uninterrupted, with_adapters(), whole.path());
  train(resumed, with_adapters(), half.path(), whole.path() / "checkpoints" / "step_00000008");
  CHECK(largest_difference(weights_of(*uninterrupted.run), weights_of(*resumed.run)) == 0);
}

TEST_CASE("a small vit learns", "[train]") {
  experiment::Experiment experiment = small_vit();
  experiment.train.steps = 60;
  experiment.train.eval_every = 60;
  experiment.optimizer.lr = 1e-2;
  const TemporaryDirectory directory;
  Trained trained;
  train(trained, experiment, directory.path());
  CHECK(trained.log.all<tracking::Evaluated>().back().metrics[1].second > 0.6);
}

TEST_CASE("a small lstm learns which token follows which", "[train]") {
  experiment::Experiment experiment = small_experiment();
  dataset::SyntheticTokensConfig tokens;
  tokens.num_samples = 64;
  tokens.num_eval_samples = 16;
  tokens.seq_len = 12;
  tokens.vocab_size = 8;
  experiment.dataset.source = tokens;
  model::LstmConfig lstm;
  lstm.hidden_size = 16;
  lstm.num_layers = 1;
  lstm.dropout = 0.1;
  experiment.model.network = lstm;
  experiment.task = task::CausalLmConfig{};
  experiment.optimizer.lr = 1e-2;
  const TemporaryDirectory directory;
  Trained trained;
  train(trained, experiment, directory.path());
  const auto steps = trained.log.all<tracking::StepLogged>();
  CHECK(steps.back().loss.value() < steps.front().loss.value() - 0.1);
}

}  // namespace trainctl::train
