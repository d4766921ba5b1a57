#include "profiler/profiler.h"

#include <ATen/record_function.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "core/error.h"
#include "profiler/analysis.h"
#include "profiler/recording.h"
#include "profiler/schedule.h"
#include "runtime/device.h"

namespace trainctl {
namespace {

constexpr double kMiB = 1 << 20;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

/// `<host>_<pid>.<ms>.pt.trace.json`, the name by which TensorBoard's profiler page finds traces.
std::filesystem::path new_trace_path(const std::filesystem::path& directory) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::string stem = host_name() + "_" + std::to_string(::getpid()) + ".";
  std::filesystem::path path;
  do path = directory / (stem + std::to_string(ms++) + ".pt.trace.json");
  while (std::filesystem::exists(path));
  return path;
}

class KinetoProfiler final : public Profiler {
 public:
  KinetoProfiler(const ProfilerConfig& config, c10::Device device, std::filesystem::path directory)
      : config_(config), device_(device), directory_(std::move(directory)) {
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    if (error)
      throw Error("cannot create " + directory_.string() + ": " + error.message()).during("preparing the profile");
  }

  ~KinetoProfiler() override {
    step_span_.reset();
    if (recording_) record_memory_by_span(false);
  }

  void step_begins() override {
    ensure(!in_step_, "a profiled step begins inside another");
    in_step_ = true;
    const ProfilePhase phase = phase_of(config_, step_);
    if (phase == ProfilePhase::idle) return;
    if (phase != last_phase_) begin(phase);
    last_phase_ = phase;
    if (phase != ProfilePhase::active) return;
    step_span_.emplace(at::RecordScope::USER_SCOPE);
    if (step_span_->isActive()) step_span_->before(std::string(kStepSpan) + std::to_string(step_));
  }

  void step_ends() override {
    ensure(in_step_, "a profiled step ends that didn't begin");
    in_step_ = false;
    step_span_.reset();
    if (last_phase_ == ProfilePhase::active && ends_cycle(config_, step_)) finish_cycle();
    ++step_;
  }

  std::int64_t num_steps() const override { return num_profiled_steps(config_); }

  ProfileSummary summary() override {
    ProfileSummary summary;
    times_.summarise(summary);
    for (const auto& [name, bytes] : peak_by_span_)
      if (!name.starts_with(kStepSpan)) summary.peak_mib_by_span[name] = static_cast<double>(bytes) / kMiB;
    summary.peak_memory_mib = static_cast<double>(peak_memory_) / kMiB;
    summary.traces = traces_;
    return summary;
  }

 private:
  /// The warm-up's recording, if there was one, ends here unseen.
  void begin(ProfilePhase phase) {
    recording_.reset();
    if (phase == ProfilePhase::active) {
      reset_device_peak(device_);
      record_memory_by_span(device_.is_cpu());  // it is the host's memory that is known by span
    }
    recording_.emplace(config_, device_);
  }

  void finish_cycle() {
    const auto result = recording_->stop();
    recording_.reset();
    last_phase_ = ProfilePhase::idle;
    for (const auto& [name, bytes] : host_peak_by_span()) {
      std::int64_t& most = peak_by_span_[name];
      most = std::max(most, bytes);
    }
    record_memory_by_span(false);
    peak_memory_ = std::max(peak_memory_, device_memory(device_).peak);
    times_.add(*result);
    const std::filesystem::path path = new_trace_path(directory_);
    result->save(path.string());
    std::error_code error;
    if (std::filesystem::file_size(path, error) == 0 || error)
      throw Error("cannot write the trace " + path.string()).hint("is the disk full, or the directory read-only?");
    traces_.push_back(path);
  }

  ProfilerConfig config_;
  c10::Device device_;
  std::filesystem::path directory_;
  std::int64_t step_ = 0;
  bool in_step_ = false;
  ProfilePhase last_phase_ = ProfilePhase::idle;
  std::optional<Recording> recording_;
  std::optional<at::RecordFunction> step_span_;
  StepTimes times_;
  std::map<std::string, std::int64_t> peak_by_span_;
  std::int64_t peak_memory_ = 0;
  std::vector<std::filesystem::path> traces_;
};

}  // namespace

std::unique_ptr<Profiler> build(const ProfilerConfig& config, c10::Device device,
                                const std::filesystem::path& directory) {
  return std::make_unique<KinetoProfiler>(config, device, directory);
}

}  // namespace trainctl
