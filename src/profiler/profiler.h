// Records some steps of a run: where the time of a step goes, the dearest operators, peak memory, and a Chrome trace.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "profiler/config.h"

namespace trainctl {

struct OperatorTime {
  std::string name;        // "aten::convolution_backward"
  std::string shapes;      // the commonest of its inputs, where recorded
  std::int64_t calls = 0;  // in all active steps
  double self_ms = 0;      // per step
  double share = 0;        // of the step
};

/// Means over the active steps.
struct ProfileSummary {
  std::int64_t num_steps = 0;
  double step_ms = 0;
  /// Time on the training thread by the outermost spans of a step: "data", "forward", "backward", …; "other" is the
  /// rest.
  std::vector<std::pair<std::string, double>> split_ms;
  std::vector<OperatorTime> operators;  // dearest first, at most ten
  std::map<std::string, double> peak_mib_by_span;
  double peak_memory_mib = 0;
  std::vector<std::filesystem::path> traces;
};

/// Follows the steps of a run through its schedule. The trainer tells it where steps begin and end; nothing else
/// changes.
class Profiler {
 public:
  virtual ~Profiler() = default;
  virtual void step_begins() = 0;
  virtual void step_ends() = 0;
  /// Steps after which the schedule is over.
  virtual std::int64_t num_steps() const = 0;
  virtual ProfileSummary summary() = 0;
};

/// Traces go to `directory` as `<host>_<pid>.<ms>.pt.trace.json`.
std::unique_ptr<Profiler> build(const ProfilerConfig& config, c10::Device device,
                                const std::filesystem::path& directory);

/// A table for a person, and the same numbers as one JSON document.
std::string format_table(const ProfileSummary& summary);
std::string format_json(const ProfileSummary& summary);

}  // namespace trainctl
