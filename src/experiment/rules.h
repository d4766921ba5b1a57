// The rules across sections, by what they are about. Each is silent where a key that it looks at already has a problem.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/node.h"
#include "config/problems.h"
#include "experiment/experiment.h"

namespace trainctl::experiment {

/// What a rule looks at, and where it reports.
class Checked {
 public:
  Checked(const Experiment& e, const config::Node& node, config::Problems& problems)
      : experiment(e), node_(node), problems_(problems) {}

  const Experiment& experiment;

  /// Reports at the first path; `paths` are all that the rule looked at. Silent if any of them already has a problem.
  void report(std::initializer_list<std::string_view> paths, std::string message) {
    report(std::span(paths.begin(), paths.size()), std::move(message));
  }
  void report(std::span<const std::string_view> paths, std::string message);
  /// Reports the rules that a kind states itself.
  void report(const std::vector<config::BrokenRule>& broken);
  /// Adds what was reported: only now, so that rules don't silence each other.
  void finish();

 private:
  const config::Node& node_;
  config::Problems& problems_;
  std::vector<std::pair<std::string, std::string>> broken_;
};

/// Sources, transforms, classes, and what the task does to images.
void check_data(Checked& checked);
/// What is done to images, and whether they end up all of one size.
void check_images(Checked& checked);
/// Text files, labels, and whether the dataset's targets are for the task.
void check_text(Checked& checked);
void check_model(Checked& checked);
/// The teacher, or the reference of dpo, beside the trained network, the task and the ranks.
void check_frozen_networks(Checked& checked);
/// Update rule and schedule.
void check_optimizer(Checked& checked);
/// Length, evaluation, precision, accumulation, checkpoints.
void check_training(Checked& checked);
void check_distributed(Checked& checked);
/// Keys that change nothing beside the values of others.
void check_idle_keys(Checked& checked);
/// Training for eight bits, and what quantization takes.
void check_quantization(Checked& checked);

/// A range of a transform: [smallest, largest].
void check_pair(Checked& checked, const std::vector<double>& pair, const std::string& path);

/// Classes that the dataset has, or 0 if only the data knows.
std::int64_t known_classes(const dataset::SourceConfig& source);
bool has_images(const dataset::SourceConfig& source);
/// Whether samples are sequences of tokens.
bool has_tokens(const dataset::SourceConfig& source);
/// Whether samples are rows of numbers.
bool has_rows(const dataset::SourceConfig& source);
/// Returns what the rules of a network look at in the rest of the experiment.
model::Surroundings surroundings_of_network(const Experiment& experiment);
/// Why a task's metric can't be watched in this direction, or "".
std::string wrong_metric(const std::string& metric, checkpoint::MetricOrder best, const Experiment& experiment);

}  // namespace trainctl::experiment
