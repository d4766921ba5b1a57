// What the front hands to the engine library, which is built with it and never without.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "experiment/load.h"
#include "quantization/config.h"

namespace trainctl::cli {

enum class Show { progress, lines, warnings };

/// When `auto` in the experiment gets its value.
enum class AutoValues {
  not_needed,         // the command runs the same for every value
  before_command,     // chosen first, and told
  chosen_by_command,  // by what the command knows of the run
};

struct DoctorOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
};

struct CheckOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  bool coordinates = false;            // the network's values at several widths, too
  std::vector<std::int64_t> widths{};  // empty: chosen by the network's
  std::int64_t steps = 5;
};

struct TrainOptions {
  static constexpr AutoValues auto_values = AutoValues::chosen_by_command;
  std::string resume = "auto";  // auto, never, or a path
};

struct ProfileOptions {
  static constexpr AutoValues auto_values = AutoValues::before_command;
};

struct EvalOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::string split = "eval";  // eval, test, train
  std::string logits = "";     // file to write the logits of the training set to
};

/// What `trainctl export` writes. auto_: hf or onnx, by the network.
enum class ExportFormat { auto_, hf, peft, safetensors, gguf, torchscript, onnx, mar, triton };

struct ExportOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  ExportFormat format = ExportFormat::auto_;
  std::string naming = "auto";  // auto, transformers, timm
  std::string outtype = "f16";  // of gguf: f32, f16, q8_0, q4_0, q4_k
  std::string output = "";
  std::string published = "";  // with what the first of several runs began: model.init_from
  bool mobile = false;
  bool verify = true;
};

struct ConsolidateOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::string output = "";
  bool everything = false;  // the optimizer's state too
};

struct AverageOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::int64_t last = 5;
  std::string output = "";  // empty: beside the checkpoints
};

struct VerifyCheckpointOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::vector<std::string>* damaged = nullptr;  // gets what would be printed
};

struct GenerateOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::string prompt = "";
  bool is_question = false;  // the prompt is what a user asks, and the chat template is put around it
  std::int64_t max_tokens = 128;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
  std::int64_t num_samples = 1;
};

struct PredictOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::vector<std::string> inputs = {};  // empty: standard input
  std::int64_t batch_size = 0;           // 0: the dataset's
  std::int64_t top = 5;
  std::string format = "jsonl";  // jsonl, csv
  std::string output = "";       // empty: standard output
  std::string masks = "";        // directory for the masks of a segmentation; empty: none are saved
};

struct QuantizeOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  quantization::QuantizationMethod method = quantization::QuantizationMethod::dynamic;
  std::string output = "";
  // What has no value here is the config's.
  std::optional<quantization::QuantizationBackend> backend = {};
  std::optional<quantization::ActivationScheme> activations = {};
  std::optional<quantization::RangeFrom> observer = {};
  std::optional<std::int64_t> activation_bits = {};
  std::int64_t calibration_batches = 16;
  std::int64_t bits = 8;
  std::int64_t group_size = -1;  // -1: the usual one
  std::vector<std::string> skip_modules = {};
  bool sweep = false;
};

struct DataPrepareOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  bool verify = false;  // read what is there
};

struct DataVerifyOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
};

struct DataBenchOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  double seconds = 10;
  double warmup_s = 2;
  std::int64_t from = 0;  // sample of the first epoch
};

struct DataShardOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::string output = "";
  std::int64_t shard_mib = 256;
  std::optional<std::int64_t> max_side = {};
  int quality = 90;
};

struct DataStatsOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::string html = "";  // empty: none
  std::int64_t max_samples = 10'000;
};

struct DataPreviewOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::int64_t num_samples = 3;
  bool of_evaluation = false;
  std::string html = "";  // empty: none
};

struct ConfigNewOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::string from = "";  // path of the data
  std::string eval = "";
  std::string label = "";
  std::string text = "";
  std::string name = "";
  std::string output = "";  // empty: standard output
  /// Loads the text of an experiment: the engine reads no YAML.
  std::function<experiment::LoadedExperiment(const std::string& text)> load{};
};

struct MeasureOptions {
  static constexpr AutoValues auto_values = AutoValues::before_command;
  std::int64_t steps = 10;
  std::int64_t warmup = 3;
};

struct PlanOptions {
  static constexpr AutoValues auto_values = AutoValues::chosen_by_command;
  std::int64_t world = 1;
  std::optional<double> memory_gib = {};     // of the device; none: what it has
  std::string device = "";                   // by name; empty: this machine's
  std::optional<double> cost_per_hour = {};  // of one device
  bool calibrate = false;                    // measure this machine's rates again
};

struct RehearseOptions {
  static constexpr AutoValues auto_values = AutoValues::before_command;
  std::int64_t world = 1;
  std::int64_t per_node = 1;  // ranks
};

/// A command of the engine, with the options that are its own.
using EngineCommand =
    std::variant<DoctorOptions, CheckOptions, TrainOptions, ProfileOptions, MeasureOptions, PlanOptions,
                 RehearseOptions, EvalOptions, PredictOptions, GenerateOptions, QuantizeOptions, ExportOptions,
                 ConsolidateOptions, AverageOptions, VerifyCheckpointOptions, DataPrepareOptions, DataBenchOptions,
                 DataShardOptions, DataVerifyOptions, ConfigNewOptions, DataStatsOptions, DataPreviewOptions>;

struct EngineCall {
  EngineCommand command;
  experiment::LoadedExperiment loaded = {};
  std::string run_dir = "";  // of the run to write, or of the run whose model is used
  std::string checkpoint = "";
  std::string tokenizer = "";  // empty: the dataset's
  Show show = Show::lines;
  bool json = false;
  std::chrono::steady_clock::time_point process_start = {};

  /// The command's own options, in its function.
  template <class Options>
  const Options& options() const {
    return std::get<Options>(command);
  }
};

/// The engine's only function that the front calls: `int trainctl_engine_main(const EngineCall&)`. Returns the exit
/// code, or throws.
inline constexpr const char* kEngineMain = "trainctl_engine_main";
using EngineMain = int (*)(const EngineCall&);

/// Loads the engine (and LibTorch with it) and calls it.
int call_engine(const EngineCall& call);

}  // namespace trainctl::cli
