#include "dataset/first_rows.h"

#include "core/error.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sources.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kFirstRows = 1000;

template <class Config>
concept HasRows = requires(const Config& config) {
  read_first_rows(config, Phase::training, kFirstRows);
};

template <class Config>
bool has_eval(const Config& config) {
  if constexpr (requires { config.eval.has_value(); })
    return config.eval.has_value();
  else
    return !config.eval.empty();
}

/// Puts a hint behind its message.
std::string one_line(std::string text) {
  const std::string begin = "\n  ";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin))
    text.replace(at, begin.size(), "; ");
  return text;
}

class Look {
 public:
  explicit Look(std::string prefix) : prefix_(std::move(prefix)) {}

  template <HasRows Config>
  void operator()(const Config& config) {
    at(config, Phase::training, "train");
    if (has_eval(config)) at(config, Phase::evaluation, "eval");
  }
  template <class Config>
  void operator()(const Config&) {}  // images, and tokens that were prepared before

  void operator()(const MixtureConfig& config) {
    for (std::size_t i = 0; i < config.sources.size(); ++i) {
      Look part("dataset.sources[" + std::to_string(i) + "].");
      config.sources[i].source.visit([&](const auto& source) { part(source); });
      found.insert(found.end(), part.found.begin(), part.found.end());
    }
  }

  std::vector<InputProblem> found;

 private:
  template <class Config>
  void at(const Config& config, Phase phase, const char* key) {
    try {
      read_first_rows(config, phase, kFirstRows);
    } catch (const core::Error& error) {
      found.push_back({prefix_ + key, one_line(error.text())});
    }
  }

  std::string prefix_;
};

}  // namespace

std::vector<InputProblem> wrong_first_rows(const DatasetConfig& config) {
  Look look("dataset.");
  config.source.visit([&](const auto& source) { look(source); });
  return look.found;
}

}  // namespace trainctl::dataset
