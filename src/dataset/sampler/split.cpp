#include "dataset/sampler/split.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <tuple>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

double uniform_of(std::uint64_t key) {
  return static_cast<double>(key >> 11) * 0x1.0p-53;
}

/// Moves the samples of the fold out of the training samples. Samples in the order of (class, hash) are dealt to the
/// folds in turn.
void take_fold(std::span<const std::uint64_t> hashes, std::span<const std::int64_t> labels, const FoldConfig& fold,
               DividedSamples& division) {
  const auto seed = static_cast<std::uint64_t>(fold.seed);
  std::vector<std::tuple<std::int64_t, std::uint64_t, std::int64_t>> order;
  for (const std::int64_t i : division.train) {
    const auto at = static_cast<std::size_t>(i);
    order.emplace_back(labels.empty() ? 0 : labels[at], runtime::mix(seed, runtime::key_of("fold"), hashes[at]), i);
  }
  std::sort(order.begin(), order.end());
  division.train.clear();
  for (std::size_t position = 0; position < order.size(); ++position) {
    const bool is_held_out = static_cast<std::int64_t>(position) % fold.count == fold.index;
    (is_held_out ? division.eval : division.train).push_back(std::get<2>(order[position]));
  }
  std::sort(division.train.begin(), division.train.end());
  std::sort(division.eval.begin(), division.eval.end());
}

void refuse_empty(const std::vector<std::int64_t>& part, std::string_view key, std::string_view use,
                  std::string_view noun, std::size_t num_samples) {
  if (!part.empty()) return;
  throw core::Error("dataset." + std::string(key) + " leaves no " + std::string(noun) + " for " + std::string(use) +
                    ", of " + core::format_count(num_samples));
}

}  // namespace

std::uint64_t key_hash(std::string_view key) {
  const std::string digits = core::checksum(key);
  std::uint64_t hash = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  return hash;
}

SplitPart Split::part_of(std::uint64_t hash) const {
  const double place = uniform_of(runtime::mix(seed, runtime::key_of("split"), hash));
  if (place < eval_fraction) return SplitPart::eval;
  return place >= 1 - test_fraction ? SplitPart::test : SplitPart::train;
}

DividedSamples divide(std::span<const std::uint64_t> hashes, std::span<const std::int64_t> labels, const Split& split,
                      std::string_view noun) {
  core::ensure(labels.empty() || labels.size() == hashes.size(), "each sample has a label, or none has");
  DividedSamples division;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const SplitPart part = split.part_of(hashes[i]);
    (part == SplitPart::train  ? division.train
     : part == SplitPart::eval ? division.eval
                               : division.test)
        .push_back(static_cast<std::int64_t>(i));
  }
  if (split.fold) take_fold(hashes, labels, *split.fold, division);
  const std::string_view key = split.fold ? "fold" : split.eval_fraction > 0 ? "eval_fraction" : "test_fraction";
  refuse_empty(division.train, key, "training", noun, hashes.size());
  if (split.fold || split.eval_fraction > 0) refuse_empty(division.eval, key, "evaluation", noun, hashes.size());
  if (split.test_fraction > 0) refuse_empty(division.test, "test_fraction", "tests", noun, hashes.size());
  return division;
}

}  // namespace trainctl::dataset
