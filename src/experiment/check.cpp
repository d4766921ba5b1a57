#include "experiment/check.h"

#include "config/node.h"
#include "experiment/rules.h"

namespace trainctl::experiment {

void Checked::report(std::span<const std::string_view> paths, std::string message) {
  for (const std::string_view path : paths)
    if (problems_.touches(path)) return;
  broken_.emplace_back(paths.front(), std::move(message));
}

void Checked::report(const std::vector<config::BrokenRule>& broken) {
  for (const config::BrokenRule& rule : broken)
    report(std::vector<std::string_view>(rule.paths.begin(), rule.paths.end()), rule.message);
}

void Checked::finish() {
  for (auto& [path, message] : broken_) problems_.add(config::origin_of(node_, path), path, std::move(message));
  broken_.clear();
}

void check_experiment(const Experiment& experiment, const config::Node& node, config::Problems& problems) {
  Checked checked(experiment, node, problems);
  check_data(checked);
  check_images(checked);
  check_text(checked);
  check_model(checked);
  check_frozen_networks(checked);
  check_optimizer(checked);
  check_training(checked);
  check_distributed(checked);
  check_quantization(checked);
  check_idle_keys(checked);
  checked.finish();
}

}  // namespace trainctl::experiment
