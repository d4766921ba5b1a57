#include "experiment/check.h"

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
  for (auto& [path, message] : broken_) problems_.add(origin_of(path), path, std::move(message));
  broken_.clear();
}

/// The place where a key was written, else the nearest mapping around it that was.
config::Origin Checked::origin_of(std::string_view path) const {
  while (true) {
    const config::Node* node = config::find_path(node_, path);
    if (node != nullptr && node->origin.kind != config::OriginKind::default_value) return node->origin;
    const std::size_t end = path.find_last_of(".[");
    if (end == std::string_view::npos) return node_.origin;
    path = path.substr(0, end);
  }
}

void check_experiment(const Experiment& experiment, const config::Node& node, config::Problems& problems) {
  Checked checked(experiment, node, problems);
  check_data(checked);
  check_images(checked);
  check_text(checked);
  check_model(checked);
  check_optimizer(checked);
  check_training(checked);
  check_distributed(checked);
  check_quantization(checked);
  checked.finish();
}

}  // namespace trainctl::experiment
