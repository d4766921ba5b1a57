#include "profiler/profiler.h"

#include <ATen/record_function.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/kineto_shim.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/median.h"
#include "core/units.h"
#include "profiler/config.h"
#include "profiler/record/cuda/plugin.h"
#include "profiler/record/read_recording.h"
#include "profiler/record/schedule.h"
#include "profiler/record/span_watch.h"
#include "profiler/record/trace_file.h"
#include "runtime/device.h"

namespace trainctl::profiler {
namespace {

namespace fs = std::filesystem;
namespace impl = torch::profiler::impl;
namespace kineto = torch::autograd::profiler;
using Clock = std::chrono::steady_clock;

/// The rank that a trace is of, as tools that read several traces know it.
struct RankOfTrace {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::string backend = "gloo";
};

/// LibTorch's profiler (Kineto) over work of the calling thread, and of the threads that autograd runs for it.
/// Records from construction until stop(); thrown away if that never comes. One at a time, stopped where it was made.
class Recording {
 public:
  Recording(const ProfilerConfig& config, c10::Device device, RankOfTrace rank);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::unique_ptr<kineto::ProfilerResult> stop();

 private:
  bool running_ = true;
};

Recording::Recording(const ProfilerConfig& config, c10::Device device, RankOfTrace rank) {
  const impl::ProfilerConfig options(impl::ProfilerState::KINETO, config.record_shapes, config.profile_memory);
  std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  if (device.is_cuda()) activities.insert(impl::ActivityType::CUDA);
  // Kineto looks for GPUs even when it isn't asked about them, and calls it an error that there is no driver.
  if (device.is_cpu()) ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
  kineto::prepareProfiler(options, activities);
  kineto::enableProfiler(options, activities);
  // By this, tools that read several ranks' traces tell them apart.
  kineto::addMetadataJson("distributedInfo", "{\"backend\": \"" + rank.backend +
                                                 "\", \"rank\": " + std::to_string(rank.rank) +
                                                 ", \"world_size\": " + std::to_string(rank.world_size) + "}");
}

Recording::~Recording() {
  if (!running_) return;
  try {
    kineto::disableProfiler();
  } catch (const std::exception& error) {
    TORCH_WARN("the profiler could not be stopped: ", error.what());
  }
}

std::unique_ptr<kineto::ProfilerResult> Recording::stop() {
  running_ = false;
  return kineto::disableProfiler();
}

constexpr std::int64_t kGpuSampleEveryNs = 20'000'000;  // the allocator's whole state is copied
constexpr std::size_t kSnapshotEntries = 200'000;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

/// Returns `<host>_<pid>.<ms>.pt.trace.json`: by this name TensorBoard's profiler page finds traces.
fs::path new_trace_path(const fs::path& directory) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::string stem = host_name() + "_" + std::to_string(::getpid()) + ".";
  fs::path path;
  do path = directory / (stem + std::to_string(ms++) + ".pt.trace.json");
  while (fs::exists(path));
  return path;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

class KinetoProfiler final : public Profiler {
 public:
  KinetoProfiler(const ProfilerConfig& config, ProfiledRun run, fs::path directory)
      : config_(config), run_(std::move(run)), directory_(std::move(directory)) {
    for (const ModuleFacts& module : run_.modules) modules_.insert(module.name);
    std::error_code error;
    fs::create_directories(directory_, error);
    if (error)
      throw core::Error("cannot create " + directory_.string() + ": " + error.message())
          .during("preparing the profile");
  }

  ~KinetoProfiler() override { step_span_.reset(); }

  void step_begins() override {
    core::ensure(!in_step_, "a profiled step begins inside another");
    in_step_ = true;
    const ProfilePhase phase = phase_of(config_, step_);
    begin_ = Clock::now();
    if (phase == ProfilePhase::idle) return;
    if (phase != last_phase_) begin(phase);
    last_phase_ = phase;
    if (phase != ProfilePhase::active) return;
    step_span_.emplace(at::RecordScope::USER_SCOPE);
    if (step_span_->isActive()) step_span_->before(std::string(kStepSpan) + std::to_string(step_));
  }

  void step_ends() override {
    core::ensure(in_step_, "a profiled step ends that didn't begin");
    const ProfilePhase phase = phase_of(config_, step_);
    in_step_ = false;
    if (phase != ProfilePhase::warmup)
      runtime::synchronize(run_.device);  // what the step gave the device is the step's
    if (phase == ProfilePhase::idle) idle_ms_.push_back(since_begin_ms());
    step_span_.reset();
    if (last_phase_ == ProfilePhase::active && ends_cycle(config_, step_)) finish_cycle();
    ++step_;
  }

  std::int64_t num_steps() const override { return num_profiled_steps(config_); }
  bool is_over() const override { return step_ >= num_steps(); }

  bool is_recording() const override { return in_step_ && last_phase_ == ProfilePhase::active; }

  ProfileSummary summary() override {
    ProfileSummary summary;
    summary.created = utc_now();
    summary.run = run_.run;
    summary.device = run_.machine;
    summary.peaks = run_.peaks;
    summary.steps = analyse_steps(capture_);
    summary.pipeline_steps = analyse_pipeline(capture_);
    summary.operators = analyse_operators(capture_, run_.peaks);
    summary.kernels = analyse_kernels(capture_, run_.peaks);
    summary.call_tree = analyse_calls(capture_);
    summary.modules = analyse_modules(capture_, run_.modules);
    summary.timeline = analyse_timeline(capture_);
    summary.memory = analyse_memory(capture_, run_.memory, summary);
    summary.host = analyse_host(capture_);
    summary.convolutions = analyse_convolutions(capture_);
    summary.traces = traces_;
    summary.memory_snapshot = memory_snapshot_;
    // The very first step is dearer than any other.
    if (std::vector<double> idle = idle_ms_; idle.size() > 1) {
      idle.erase(idle.begin());
      summary.step_ms_unrecorded = core::median(std::move(idle));
    }
    return summary;
  }

 private:
  double since_begin_ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }

  /// Begins a phase. Drops the recording of the warm-up, if there was one.
  void begin(ProfilePhase phase) {
    recording_.reset();
    watch_.reset();
    if (phase == ProfilePhase::active) {
      SpanWatchOptions options{.free_space = {}, .gradients = run_.gradients};
      if (config_.profile_memory)
        options.free_space = [device = run_.device] { return runtime::device_free_space(device); };
      if (!run_.device.is_cpu()) options.free_space_every_ns = kGpuSampleEveryNs;
      watch_.emplace(std::move(options));
      record_memory(kSnapshotEntries);
    }
    recording_.emplace(
        config_, run_.device,
        RankOfTrace{
            .rank = run_.rank, .world_size = run_.run.world_size, .backend = run_.device.is_cpu() ? "gloo" : "nccl"});
    begin_ = Clock::now();
  }

  void finish_cycle() {
    const auto result = recording_->stop();
    recording_.reset();
    last_phase_ = ProfilePhase::idle;
    append(capture_, *result, {.device = run_.device, .modules = modules_, .nodes = watch_->nodes()});
    std::ranges::move(watch_->take_free_space(), std::back_inserter(capture_.free_space));
    std::ranges::move(watch_->take_gradients(), std::back_inserter(capture_.gradients));
    watch_.reset();
    save_memory_snapshot();
    const fs::path path = new_trace_path(directory_);
    result->save(path.string());
    std::error_code error;
    if (fs::file_size(path, error) == 0 || error)
      throw core::Error("cannot write the trace " + path.string())
          .hint("is the disk full, or the directory read-only?");
    traces_.push_back(bound_trace(path, config_.max_trace_mib * core::kMiB));
  }

  void record_memory(std::size_t num_entries) const {
    if (run_.device.is_cpu() || !config_.profile_memory) return;
    if (auto* record = reinterpret_cast<RecordMemoryFunction*>(runtime::cuda_symbol(kRecordMemorySymbol)))
      record(num_entries);
  }

  void save_memory_snapshot() {
    if (run_.device.is_cpu() || !config_.profile_memory) return;
    auto* snapshot = reinterpret_cast<MemorySnapshotFunction*>(runtime::cuda_symbol(kMemorySnapshotSymbol));
    if (snapshot == nullptr) return;
    std::string pickle;
    snapshot(pickle);
    record_memory(0);
    const std::string rank = run_.rank == 0 ? "" : "_rank_" + std::to_string(run_.rank);
    const fs::path path = directory_ / ("memory_snapshot" + rank + ".pickle");
    core::write_file_atomically(path, pickle);
    memory_snapshot_ = path.string();
  }

  ProfilerConfig config_;
  ProfiledRun run_;
  fs::path directory_;
  std::set<std::string> modules_;
  std::int64_t step_ = 0;
  bool in_step_ = false;
  Clock::time_point begin_;
  ProfilePhase last_phase_ = ProfilePhase::idle;
  std::optional<SpanWatch> watch_;
  std::optional<Recording> recording_;
  std::optional<at::RecordFunction> step_span_;
  Capture capture_;
  std::vector<double> idle_ms_;
  std::vector<TraceFile> traces_;
  std::optional<std::string> memory_snapshot_;
};

}  // namespace

std::unique_ptr<Profiler> build(const ProfilerConfig& config, ProfiledRun run, const fs::path& directory) {
  return std::make_unique<KinetoProfiler>(config, std::move(run), directory);
}

}  // namespace trainctl::profiler
