// All that a profile says: what profile/summary.json holds. docs/profile.md defines every field; names and units are
// the same here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::profiler {

/// A key of the config and its new value.
struct Change {
  std::string key;
  std::string value;
};

/// What a finding looks at of the experiment before it proposes a change.
struct RunChoices {
  std::int64_t log_every = 20;
  std::optional<std::int64_t> num_workers = 0;  // of the loader; none: `auto`
  std::int64_t cache_mib = 0;
  bool could_fuse_update = false;
  bool reads_overflow_flag = false;  // the optimizer, on the host
  bool synchronizes_batch_norm = false;
  bool finds_unused_parameters = false;
  bool could_compress_gradients = false;
  bool recomputes = false;
  bool caching_allocator = true;
  bool expandable_segments = false;
};

struct RunFacts {
  std::string name;
  std::string directory;
  std::string model;
  std::int64_t num_parameters = 0;
  std::string precision = "fp32";
  std::int64_t batch_size = 0;
  std::int64_t micro_batches = 1;
  std::int64_t world_size = 1;
  std::string memory_format;  // empty: no images
  RunChoices choices;
  std::map<std::string, std::string> settings;  // the config, flattened: for the record alone
};

struct DeviceFacts {
  std::string kind = "cpu";
  std::string name;
  std::int64_t threads = 1;
  double memory_mib = 0;
  std::string cpu;
  std::int64_t cores = 1;
  double host_memory_mib = 0;
  std::string libtorch;
};

struct Peaks {
  std::map<std::string, double> flops_per_s;  // by dtype
  double bytes_per_s = 0;                     // 0: not measured
};

/// Statistics of a time over steps.
struct Spread {
  double mean_ms = 0;
  double median_ms = 0;
  double min_ms = 0;
  double max_ms = 0;
  double std_ms = 0;
};

/// What a step's time is split into, in this order.
enum class Part { data_wait, host_to_device, forward, backward, optimizer, communication, other };
inline constexpr std::size_t kNumParts = 7;
const char* name_of(Part part);

struct StepTime {
  std::int64_t number = 0;
  double ms = 0;
  double split_ms[kNumParts] = {};
};

struct SpanTime {
  std::string name;
  double ms = 0;  // a step
  std::optional<double> peak_mib;
};

struct StepSummary {
  Spread time;
  Spread split[kNumParts];
  std::vector<StepTime> each;
  std::vector<SpanTime> spans;
  double samples_per_s = 0;
  double tokens_per_s = 0;
  double mfu = 0;
  double device_utilization = 0;

  double ms(Part part) const { return split[static_cast<std::size_t>(part)].mean_ms; }
  double share(Part part) const { return time.mean_ms > 0 ? ms(part) / time.mean_ms : 0; }
};

/// Figures a step, unless they say otherwise.
struct OperatorSummary {
  std::string name;
  std::string shapes;
  std::string dtype;
  std::string phase;
  double calls = 0;
  double self_ms = 0;
  std::optional<double> device_ms;
  double flops = 0;
  double bytes = 0;
  std::optional<double> roofline_efficiency;
  std::vector<std::string> flags;

  double seconds() const { return device_ms.value_or(self_ms) / 1e3; }
  bool has(const std::string& flag) const;
};

struct KernelSummary {
  std::string name;
  std::string launched_by;
  double calls = 0;
  double ms = 0;
  std::vector<std::int64_t> grid;
  std::vector<std::int64_t> block;
  std::int64_t registers = 0;
  std::int64_t shared_bytes = 0;
  double occupancy = 0;
  std::int64_t stream = 0;
  std::vector<std::string> flags;
};

template <class Row>
struct Ranked {
  std::vector<Row> rows;
  std::int64_t num_dropped = 0;
  double dropped_ms = 0;
};

struct CallNode {
  std::string name;
  double ms = 0;
  double self_ms = 0;
  double calls = 0;
  std::vector<CallNode> children;
};

struct ModuleSummary {
  std::string name;
  bool is_block = false;
  double forward_ms = 0;
  double backward_ms = 0;
  double calls = 0;
  double flops = 0;
  double parameters_mib = 0;
  double activations_mib = 0;
  std::optional<double> peak_mib;
};

enum class IntervalKind { op, span, module, kernel, copy, collective };

struct TimelineInterval {
  double start_us = 0;
  double duration_us = 0;
  std::int64_t depth = 0;
  std::int64_t name = 0;  // in Timeline::names
  IntervalKind kind = IntervalKind::op;
};

struct TimelineTrack {
  std::string name;
  bool is_stream = false;
  std::vector<TimelineInterval> intervals;
};

struct Timeline {
  struct Step {
    std::int64_t number = 0;
    double start_us = 0;
    double duration_us = 0;
  };
  std::vector<Step> steps;
  std::vector<std::string> names;
  std::vector<TimelineTrack> tracks;
  std::int64_t num_dropped = 0;
  double shorter_than_us = 0;
};

enum class MemoryCategory { parameters, gradients, optimizer, activations, workspace, other };
inline constexpr std::size_t kNumCategories = 6;
const char* name_of(MemoryCategory category);

struct MemoryPoint {
  double t_ms = 0;
  double mib[kNumCategories] = {};
  double allocated = 0;
  double reserved = 0;
  std::optional<double> largest_free;

  double of(MemoryCategory category) const { return mib[static_cast<std::size_t>(category)]; }
};

struct Fragmentation {
  std::vector<double> classes_mib;
  struct Point {
    double t_ms = 0;
    std::vector<double> free_mib;
    double reserved_mib = 0;
    double allocated_mib = 0;
    double largest_free_mib = 0;
  };
  std::vector<Point> points;
  double share = 0;
};

struct MemorySummary {
  double limit_mib = 0;
  std::vector<MemoryPoint> series;
  MemoryPoint peak;
  std::string peak_phase;
  std::vector<std::pair<std::string, double>> peak_by_module;
  Fragmentation fragmentation;
};

/// When a rank of a pipeline computes an action of its schedule. Zero is the moment at which all ranks know how many
/// targets the step has.
struct ActionTime {
  double begin_ms = 0;
  double end_ms = 0;
};
using PipelineStep = std::vector<ActionTime>;  // a rank's actions in their order

/// The ranks at one place of the pipeline axis: means over them, a step.
struct PipelineRank {
  std::vector<std::int64_t> stages;
  double compute_ms = 0;
  double transfer_ms = 0;  // it waits for what another rank has made
  double bubble_ms = 0;    // it waits for what nobody has made yet
  struct Action {
    std::string name;
    ActionTime time;
  };
  std::vector<Action> actions;  // of the last recorded step
};

struct PipelineSummary {
  std::string schedule;
  double pass_ms = 0;       // from the first action of a step to the last
  double simulated_ms = 0;  // the same of a simulation with the actions' mean times
  std::vector<PipelineRank> ranks;
  /// Other ways to do the same work, simulated.
  struct Alternative {
    std::vector<Change> changes;
    double pass_ms = 0;
  };
  std::vector<Alternative> alternatives;

  double bubble() const;  // share of the pass, mean over ranks
};

struct RankSummary {
  std::int64_t rank = 0;
  std::int64_t stage = 0;  // its place on the pipeline axis
  double step_ms = 0;
  double own_ms = 0;
  double data_wait_ms = 0;
  double communication_ms = 0;
  double exposed_ms = 0;
  double stage_wait_ms = 0;  // of that, for other stages of a pipeline
  double peak_mib = 0;
};

struct DistributedSummary {
  std::string backend;
  double communication_ms = 0;
  double exposed_ms = 0;
  std::vector<RankSummary> ranks;
  std::optional<std::pair<std::int64_t, std::string>> straggler;
  std::optional<PipelineSummary> pipeline;
};

/// Calls that read a device's value, wait for it, or write a record.
struct HostWork {
  double reads = 0;          // values read from tensors, a step
  double sync_ms = 0;        // waiting for the device, a step
  double record_ms = 0;      // of one log record
  double recompute_ms = 0;   // computing blocks again, a step
  double batch_norm_ms = 0;  // ranks exchange statistics of BatchNorm, a step
};

/// A convolution of images, forward and backward; milliseconds a step of its forward pass.
struct ConvolutionSummary {
  std::vector<std::int64_t> input;
  std::vector<std::int64_t> weight;
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;
  std::int64_t groups = 1;
  double ms = 0;
};

/// The dearest convolutions, run alone in either memory format, forward and backward.
struct LayoutProbe {
  double contiguous_ms = 0;
  double channels_last_ms = 0;
};

struct DataSummary {
  std::string wait_cause = "none";
  std::int64_t workers = 0;
};

struct Finding {
  std::string rule;
  std::string what;
  std::string evidence;
  std::vector<Change> changes;
  double gain_ms = 0;  // a step
  double gain_mib = 0;
  std::string gain;
};

struct TraceFile {
  std::string path;
  std::int64_t bytes = 0;
  std::int64_t events = 0;
  std::int64_t dropped_events = 0;
  std::string dropped;
};

struct ProfileSummary {
  std::string created;
  RunFacts run;
  DeviceFacts device;
  Peaks peaks;
  StepSummary steps;
  std::vector<PipelineStep> pipeline_steps;  // this rank's own
  Ranked<OperatorSummary> operators;
  Ranked<KernelSummary> kernels;
  CallNode call_tree;
  std::vector<ModuleSummary> modules;
  Timeline timeline;
  MemorySummary memory;
  std::optional<DistributedSummary> distributed;
  HostWork host;
  std::vector<ConvolutionSummary> convolutions;  // dearest first
  std::optional<LayoutProbe> layout;             // of networks of images
  DataSummary data;
  std::vector<Finding> findings;
  std::vector<TraceFile> traces;
  std::optional<std::string> memory_snapshot;
  std::optional<double> step_ms_unrecorded;

  std::int64_t num_steps() const { return static_cast<std::int64_t>(steps.each.size()); }
};

/// A line of YAML that a user can write: "dataset: {num_workers: auto}".
std::string yaml_line(const Change& change);

/// A text for a person, and all numbers as one JSON document.
std::string format_text(const ProfileSummary& summary);
std::string format_json(const ProfileSummary& summary);

}  // namespace trainctl::profiler
