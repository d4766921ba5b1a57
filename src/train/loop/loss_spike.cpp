#include "train/loop/loss_spike.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "checkpoint/gather_texts.h"
#include "core/error.h"
#include "core/text.h"

namespace trainctl::train {
namespace {

/// Returns the samples of the step on all ranks, by their indices in the training set; some ranks have the same.
std::set<std::int64_t> samples_of_all(const std::vector<std::int64_t>& mine, comm::Group& world) {
  std::string text;
  for (const std::int64_t sample : mine) text += std::to_string(sample) + " ";
  std::set<std::int64_t> samples;
  for (const std::string& of_rank : checkpoint::gather_texts(world, text)) {
    std::istringstream words(of_rank);
    for (std::int64_t sample = 0; words >> sample;) samples.insert(sample);
  }
  return samples;
}

std::string describe(const LossSpike& spike, std::int64_t step) {
  return "step " + core::format_count(step) + " has a loss of " + core::format_digits(spike.loss, 4) + ", where " +
         core::format_digits(spike.usual_loss, 4) + " is usual (robust z " + core::format_digits(spike.loss_z, 3) +
         "), and a gradient norm of " + core::format_digits(spike.grad_norm, 4) + ", where " +
         core::format_digits(spike.usual_grad_norm, 4) + " is usual (robust z " +
         core::format_digits(spike.grad_norm_z, 3) + ")";
}

std::string first_few(const std::set<std::int64_t>& samples) {
  constexpr std::size_t kFew = 8;
  std::string text;
  std::size_t count = 0;
  for (const std::int64_t sample : samples) {
    if (count++ == kFew) return text + ", …";
    text += (text.empty() ? "" : ", ") + std::to_string(sample);
  }
  return text;
}

void append(const std::filesystem::path& path, const nlohmann::json& line) {
  std::ofstream file(path, std::ios::app);
  file << line.dump() << "\n";
  file.close();
  if (!file) throw core::system_error("write", path.string());
}

}  // namespace

AfterLossSpike handle_loss_spike(Run& run, const StepResult& result, tracking::Sink& sink,
                                 const std::filesystem::path& run_directory, Checkpointer& checkpointer) {
  const TrainConfig& config = run.experiment.train;
  if (!run.loss_spikes || result.count <= 0 || !result.grad_norm.defined()) return AfterLossSpike::go_on;
  const std::optional<LossSpike> spike =
      run.loss_spikes->observe(result.loss.item<double>() / result.count, result.grad_norm.item<double>());
  if (!spike) return AfterLossSpike::go_on;
  const bool wants_rollback = config.loss_spikes->action == SpikeAction::rollback;
  const bool can_roll_back = wants_rollback && checkpointer.can_roll_back();
  const bool rolls_back = can_roll_back && run.num_rollbacks < config.max_rollbacks;
  const std::set<std::int64_t> samples = samples_of_all(result.samples, run.mesh->world());
  const std::filesystem::path list = run_directory / "loss_spikes.jsonl";
  if (run.is_first())
    append(list, {{"step", run.step},
                  {"loss", spike->loss},
                  {"usual_loss", spike->usual_loss},
                  {"loss_z", spike->loss_z},
                  {"grad_norm", spike->grad_norm},
                  {"usual_grad_norm", spike->usual_grad_norm},
                  {"grad_norm_z", spike->grad_norm_z},
                  {"rolls_back", rolls_back},
                  {"samples", samples}});
  std::string text = "loss spike: " + describe(*spike, run.step) + "; its samples are " + first_few(samples) + " (" +
                     list.string() + " lists them)";
  if (wants_rollback && !rolls_back)
    text += can_roll_back ? "; train.max_rollbacks is reached, so the run goes on"
                          : "; there is no checkpoint to go back to, so the run goes on";
  sink.on(tracking::Notice{tracking::Level::warning, text});
  return rolls_back ? AfterLossSpike::roll_back : AfterLossSpike::go_on;
}

}  // namespace trainctl::train
