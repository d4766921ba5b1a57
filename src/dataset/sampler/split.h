// Which samples are kept for evaluation and test.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dataset/fold_config.h"

namespace trainctl::dataset {

/// Returns the XXH3 hash (64 bits) of `key`, equal on every machine and in every version.
std::uint64_t key_hash(std::string_view key);

enum class SplitPart { train, eval, test };

/// Shares of the training samples. A hash of each sample's key decides, so that more data moves none. The test share
/// does not depend on folds, nor the evaluation share on the test share.
struct Split {
  double eval_fraction = 0;
  double test_fraction = 0;
  std::uint64_t seed = 0;
  std::optional<FoldConfig> fold{};  // the evaluation samples, in place of eval_fraction

  bool divides() const { return eval_fraction > 0 || test_fraction > 0 || fold; }
  /// Returns the part of the sample with this key_hash, without folds.
  SplitPart part_of(std::uint64_t hash) const;
  bool keeps_for_evaluation(std::uint64_t hash) const { return part_of(hash) == SplitPart::eval; }
};

/// Numbers of samples, rising.
struct DividedSamples {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> eval;
  std::vector<std::int64_t> test;
};

/// Divides the samples with these hashes. `labels`: of the same samples; empty if they have no classes. Equal samples
/// stay together, and each share has at least one. Folds are stratified: of each class, as of all samples, every fold
/// has as many as another to within one. If too few samples differ, so that a part has none, that is an Error, which
/// calls the samples `noun`.
DividedSamples divide(std::span<const std::uint64_t> hashes, std::span<const std::int64_t> labels, const Split& split,
                      std::string_view noun);

}  // namespace trainctl::dataset
