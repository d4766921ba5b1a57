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

/// Returns the place of a sample in [0, 1), the same for equal samples. Evaluation takes the first ones, tests the
/// last.
double place_of(std::uint64_t hash, std::uint64_t seed) {
  return static_cast<double>(runtime::mix(seed, runtime::key_of("split"), hash) >> 11) * 0x1.0p-53;
}

/// Where the places of evaluation end, and those of tests begin.
struct Bounds {
  double eval_end;
  double test_begin;
};

SplitPart part_at(double place, const Bounds& bounds) {
  if (place < bounds.eval_end) return SplitPart::eval;
  return place >= bounds.test_begin ? SplitPart::test : SplitPart::train;
}

Bounds bounds_of(const Split& split) {
  return {.eval_end = split.eval_fraction, .test_begin = 1 - split.test_fraction};
}

/// Returns the bounds by which each share, and the training, has at least one place. The shares' own bounds are right
/// but for few different samples. Too few are left as they are.
Bounds bounds_with_one_each(const Split& split, std::span<const std::uint64_t> hashes) {
  std::vector<double> places;
  for (const std::uint64_t hash : hashes) places.push_back(place_of(hash, split.seed));
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  const Bounds bounds = bounds_of(split);
  const auto count = static_cast<std::ptrdiff_t>(places.size());
  const std::ptrdiff_t least_eval = split.eval_fraction > 0 ? 1 : 0;
  const std::ptrdiff_t least_test = split.test_fraction > 0 ? 1 : 0;
  if (count <= least_eval + least_test) return bounds;
  const auto rank = [&](double bound) {
    return std::lower_bound(places.begin(), places.end(), bound) - places.begin();
  };
  const std::ptrdiff_t num_eval = std::clamp(rank(bounds.eval_end), least_eval, count - 1 - least_test);
  const std::ptrdiff_t num_test = std::clamp(count - rank(bounds.test_begin), least_test, count - 1 - num_eval);
  return {.eval_end = places[static_cast<std::size_t>(num_eval)],
          .test_begin = num_test == 0 ? 1 : places[static_cast<std::size_t>(count - num_test)]};
}

DividedSamples divide_by_place(std::span<const std::uint64_t> hashes, std::uint64_t seed, const Bounds& bounds) {
  DividedSamples division;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const SplitPart part = part_at(place_of(hashes[i], seed), bounds);
    (part == SplitPart::train  ? division.train
     : part == SplitPart::eval ? division.eval
                               : division.test)
        .push_back(static_cast<std::int64_t>(i));
  }
  return division;
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
  const std::string samples = std::string(noun) + "s";
  throw core::Error("dataset." + std::string(key) + " leaves no " + std::string(noun) + " for " + std::string(use) +
                    ", of " + core::format_count(num_samples))
      .hint(key == "fold" ? "take fewer folds than there are " + samples
                          : "equal " + samples + " stay together, and too few differ; dataset.eval and dataset.test " +
                                "may name sets of their own");
}

}  // namespace

std::uint64_t key_hash(std::string_view key) {
  const std::string digits = core::checksum(key);
  std::uint64_t hash = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  return hash;
}

SplitPart Split::part_of(std::uint64_t hash) const {
  return part_at(place_of(hash, seed), bounds_of(*this));
}

DividedSamples divide(std::span<const std::uint64_t> hashes, std::span<const std::int64_t> labels, const Split& split,
                      std::string_view noun) {
  core::ensure(labels.empty() || labels.size() == hashes.size(), "each sample has a label, or none has");
  DividedSamples division = divide_by_place(hashes, split.seed, bounds_of(split));
  const bool has_empty_share =
      (split.eval_fraction > 0 && division.eval.empty()) || (split.test_fraction > 0 && division.test.empty());
  if (division.train.empty() || has_empty_share)
    division = divide_by_place(hashes, split.seed, bounds_with_one_each(split, hashes));
  if (split.fold) take_fold(hashes, labels, *split.fold, division);
  const std::string_view key = split.fold ? "fold" : split.eval_fraction > 0 ? "eval_fraction" : "test_fraction";
  refuse_empty(division.train, key, "training", noun, hashes.size());
  if (split.fold || split.eval_fraction > 0) refuse_empty(division.eval, key, "evaluation", noun, hashes.size());
  if (split.test_fraction > 0) refuse_empty(division.test, "test_fraction", "tests", noun, hashes.size());
  return division;
}

}  // namespace trainctl::dataset
