#include "experiment/run_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "config/parse.h"

namespace trainctl::experiment {
namespace {

namespace fs = std::filesystem;

/// What a run's model says beside its network: how it was trained.
constexpr std::array<std::string_view, 8> kOfTraining = {
    "memory_format", "convolution_algorithm", "init_from", "init_policy", "mup", "lora", "freeze", "placement"};

/// Returns the run's config.yaml, beside its checkpoints; none if the path is of no run.
std::optional<fs::path> config_of_run(fs::path path) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) return std::nullopt;
  path = fs::absolute(path / "", unknown).lexically_normal().parent_path();
  constexpr int kDepth = 3;  // run, checkpoints, step
  for (int i = 0; i < kDepth; ++i, path = path.parent_path())
    if (fs::exists(path / "config.yaml", unknown) && fs::is_directory(path / "checkpoints", unknown))
      return path / "config.yaml";
  return std::nullopt;
}

}  // namespace

void adopt_run_config(const NetworkSection& section, config::Problems& problems) {
  if (section.node == nullptr || section.node->kind != config::NodeKind::mapping) return;
  const config::Node* const init_from = section.node->find("init_from");
  if (init_from == nullptr || init_from->kind != config::NodeKind::scalar) return;
  const std::optional<fs::path> path = config_of_run(init_from->text);
  if (!path) return;
  const std::optional<config::Node> run = config::parse_file(*path, problems);
  const config::Node* const model = run ? run->find("model") : nullptr;
  const config::Node* const kind = model == nullptr ? nullptr : model->find("kind");
  if (kind == nullptr) return;
  const config::Node* const ours = section.node->find("kind");
  if (ours != nullptr && ours->text != kind->text) return;
  for (const config::Node::Entry& entry : model->entries) {
    const bool is_of_training = std::ranges::find(kOfTraining, entry.key) != kOfTraining.end();
    if (!is_of_training && section.node->find(entry.key) == nullptr)
      section.node->add(entry.key, entry.key_origin, entry.value);
  }
}

std::string first_init_from(std::string init_from) {
  constexpr int kMostRuns = 100;  // a run may begin with itself
  std::error_code unknown;
  for (int i = 0; i < kMostRuns; ++i) {
    if (fs::exists(fs::path(init_from) / "config.json", unknown)) break;  // an export, perhaps inside a run
    const std::optional<fs::path> path = config_of_run(init_from);
    config::Problems problems;
    const std::optional<config::Node> run = path ? config::parse_file(*path, problems) : std::nullopt;
    const config::Node* const model = run ? run->find("model") : nullptr;
    const config::Node* const earlier = model == nullptr ? nullptr : model->find("init_from");
    if (earlier == nullptr || earlier->kind != config::NodeKind::scalar || earlier->text.empty()) break;
    init_from = earlier->text;
  }
  return init_from;
}

}  // namespace trainctl::experiment
