// What a set is like: counts, classes, sizes, means and deviations.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data_tools/contact_sheet.h"
#include "data_tools/set_reader.h"
#include "data_tools/sharding.h"
#include "dataset/files/parallel.h"
#include "dataset/sources.h"

namespace trainctl::data_tools {
namespace {

/// The sums over samples. Pixels are summed as integers, so that no order of threads changes a digit.
struct Sums {
  std::vector<std::int64_t> class_counts{};
  std::vector<std::int64_t> widths{};
  std::vector<std::int64_t> heights{};
  std::int64_t read = 0;
  std::int64_t bad = 0;
  std::int64_t turned = 0;
  std::int64_t bytes = 0;
  std::int64_t pixels = 0;
  std::vector<std::uint64_t> sum{};      // by channel
  std::vector<std::uint64_t> squares{};  // by channel

  void add_pixels(const dataset::Image& image) {
    const auto channels = static_cast<std::size_t>(image.channels);
    sum.resize(std::max(sum.size(), channels));
    squares.resize(sum.size());
    for (std::size_t i = 0; i < image.bytes.size(); ++i) {
      const std::uint64_t value = image.bytes[i];
      sum[i % channels] += value;
      squares[i % channels] += value * value;
    }
    pixels += image.width * image.height;
    widths.push_back(image.width);
    heights.push_back(image.height);
  }

  void add_labels(const std::vector<std::int64_t>& labels) {
    for (const std::int64_t label : labels) {
      const auto number = static_cast<std::size_t>(label);
      if (number >= class_counts.size()) class_counts.resize(number + 1);
      ++class_counts[number];
    }
  }

  void add(const Sums& more) {
    const auto add_each = [](auto& to, const auto& from) {
      to.resize(std::max(to.size(), from.size()));
      for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
    };
    add_each(class_counts, more.class_counts);
    add_each(sum, more.sum);
    add_each(squares, more.squares);
    widths.insert(widths.end(), more.widths.begin(), more.widths.end());
    heights.insert(heights.end(), more.heights.begin(), more.heights.end());
    read += more.read, bad += more.bad, turned += more.turned, bytes += more.bytes, pixels += more.pixels;
  }
};

std::array<std::int64_t, 3> range_of(std::vector<std::int64_t> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

SetStatistics finish(Sums sums, const dataset::Source& source, std::string part) {
  SetStatistics set{.part = std::move(part), .samples = source.size()};
  set.class_counts = std::move(sums.class_counts);
  set.read = sums.read;
  set.bad = sums.bad;
  set.turned = sums.turned;
  set.bytes = sums.read > 0 ? static_cast<double>(sums.bytes) / static_cast<double>(sums.read) : 0;
  set.width = range_of(std::move(sums.widths));
  set.height = range_of(std::move(sums.heights));
  for (std::size_t c = 0; c < sums.sum.size(); ++c) {
    const double mean = static_cast<double>(sums.sum[c]) / static_cast<double>(sums.pixels);
    const double square = static_cast<double>(sums.squares[c]) / static_cast<double>(sums.pixels);
    set.mean.push_back(mean / 255);
    set.std.push_back(std::sqrt(std::max(0.0, square - mean * mean)) / 255);
  }
  return set;
}

SetStatistics statistics_of(const dataset::Source& source, const std::string& part, const StatRequest& request) {
  constexpr std::int64_t kRun = 16;  // samples that a thread takes at once
  const SetReader reader(source);
  const std::int64_t count = std::min(source.size(), request.max_samples);
  const dataset::Targets targets = source.spec().targets;
  const bool labelled = targets == dataset::Targets::labels || targets == dataset::Targets::label_sets;
  Sums all;
  std::mutex mutex;
  dataset::for_each_in_parallel((count + kRun - 1) / kRun, request.threads, [&](std::int64_t run) {
    Sums sums;
    for (std::int64_t i = run * kRun; i < std::min((run + 1) * kRun, count); ++i) {
      try {
        const ReadSample sample =
            reader.read(static_cast<std::int64_t>(static_cast<__int128>(i) * source.size() / count));
        ++sums.read;
        sums.bytes += sample.bytes;
        sums.turned += sample.is_turned ? 1 : 0;
        if (sample.image) sums.add_pixels(*sample.image);
        if (labelled) sums.add_labels(sample.labels);
      } catch (const core::Error&) {
        ++sums.bad;
      }
    }
    const std::lock_guard lock(mutex);
    all.add(sums);
  });
  if (labelled)
    all.class_counts.resize(std::max(all.class_counts.size(), static_cast<std::size_t>(source.spec().num_classes)));
  return finish(std::move(all), source, part);
}

}  // namespace

std::string SetStatistics::counted_in() const {
  return read < samples ? ", counted in the " + core::format_count(read) + " samples read" : "";
}

StatReport dataset_statistics(const dataset::DatasetConfig& config, const StatRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  const dataset::Sources sources = dataset::open_sources(
      config.source, {.evaluated = dataset::EvaluatedSet::test, .fold = config.fold, .tell = request.tell});
  StatReport report;
  report.class_names = sources.train->spec().class_names;
  report.sets.push_back(statistics_of(*sources.train, "train", request));
  if (sources.eval) report.sets.push_back(statistics_of(*sources.eval, "eval", request));
  if (sources.test) report.sets.push_back(statistics_of(*sources.test, "test", request));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (request.html) core::write_file_atomically(*request.html, contact_sheet(report, *sources.train));
  return report;
}

}  // namespace trainctl::data_tools
