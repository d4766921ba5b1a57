// What the newest evaluation of a run says of each class: evaluation.json, as figures by class and confusions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::compare {

/// A class's figures; those that the file doesn't tell are missing.
struct ClassFigures {
  std::string name;
  std::optional<std::int64_t> count;  // of its samples
  std::optional<double> precision;
  std::optional<double> recall;
  std::optional<double> f1;
};

/// Samples of one class that were taken for another.
struct Confusion {
  std::string label;
  std::string prediction;
  std::int64_t count = 0;
  double share = 0;  // of the label's samples
};

struct EvaluationFile {
  std::int64_t step = 0;
  double seconds = 0;
  std::vector<std::pair<std::string, double>> metrics;  // NaN for what isn't finite
  std::optional<std::int64_t> num_samples;
  std::vector<ClassFigures> classes;                 // empty: the task has none
  std::vector<std::vector<std::int64_t>> confusion;  // [label][prediction]; empty: not recorded
};

/// Reads RUN/evaluation.json; none if it is missing or can't be read.
std::optional<EvaluationFile> read_evaluation(const std::filesystem::path& run_directory);

/// Returns the most frequent confusions, at most so many.
std::vector<Confusion> most_confused(const EvaluationFile& evaluation, std::size_t most);

}  // namespace trainctl::compare
