// A checkpoint whose weights are the mean of several checkpoints' (https://arxiv.org/abs/1803.05407).
#pragma once

#include <filesystem>
#include <vector>

namespace trainctl::checkpoint {

/// Whether averaged BatchNorm statistics are in the model: they are near those of the averaged weights, not equal.
enum class RunningStatistics { none, averaged };

/// Writes a complete checkpoint into `directory`. Floating-point tensors of the model, its running statistics, and the
/// run's moving averages are means, added in double. All else is that of the first of `sources`: counters, the
/// optimizer and the place in the data. The result has no metrics. Sources of another model, and values in them
/// that are not finite, are an Error.
RunningStatistics write_average(const std::vector<std::filesystem::path>& sources,
                                const std::filesystem::path& directory);

}  // namespace trainctl::checkpoint
