#include "experiment/check.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl {
namespace {

/// What each rule looks at, and where it reports.
class Checked {
 public:
  Checked(const Experiment& e, const config::Node& node, config::Problems& problems) : experiment(e), node_(node), problems_(problems) {}

  const Experiment& experiment;

  /// Reports at the first path; silent if any of them already has a problem, since its value can't be trusted.
  void report(std::initializer_list<std::string_view> paths, std::string message) {
    for (const std::string_view path : paths)
      if (problems_.touches(path)) return;
    broken_.push_back({std::string(*paths.begin()), std::move(message)});
  }

  /// Whether a key stands in a file or in --set.
  bool is_written(std::string_view path) const {
    const config::Node* found = config::find_path(node_, path);
    return found != nullptr && found->origin.kind != config::OriginKind::default_value;
  }

  /// Rules don't silence each other: their problems are added at the end.
  void finish() {
    for (auto& [path, message] : broken_) problems_.add(origin_of(path), path, std::move(message));
  }

 private:
  /// The written place of a key, else of the nearest mapping around it that is written.
  config::Origin origin_of(std::string_view path) const {
    for (;; path = path.substr(0, path.find_last_of(".["))) {
      if (is_written(path)) return config::find_path(node_, path)->origin;
      if (path.find_last_of(".[") == std::string_view::npos) return node_.origin;
    }
  }

  const config::Node& node_;
  config::Problems& problems_;
  std::vector<std::pair<std::string, std::string>> broken_;
};

void check_length(Checked& c) {
  const TrainConfig& train = c.experiment.train;
  if (!train.epochs && !train.steps) c.report({"train"}, "give train.epochs or train.steps");
  if (train.epochs && train.steps) c.report({"train.steps", "train.epochs"}, "train.epochs is given too; give one of them");
}

}  // namespace

void check_experiment(const Experiment& experiment, const config::Node& node, config::Problems& problems) {
  Checked checked(experiment, node, problems);
  check_length(checked);
  checked.finish();
}

}  // namespace trainctl
