// What the front hands to the engine library, which is built with it and never without.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiment/load.h"

namespace trainctl::cli {

enum class Show { progress, lines, warnings };

struct ExportOptions {
  std::string format = "hf";    // hf, safetensors, torchscript, onnx, mar, triton
  std::string naming = "auto";  // auto, transformers, timm
  std::string output = "";
  bool mobile = false;
  bool verify = true;
};

struct ConsolidateOptions {
  std::string output = "";
  bool everything = false;  // the optimizer's state too
};

struct GenerateOptions {
  std::string prompt = "";
  std::int64_t max_tokens = 128;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
  std::int64_t num_samples = 1;
};

struct PredictOptions {
  std::vector<std::string> inputs = {};  // empty: standard input
  std::int64_t batch_size = 0;           // 0: the dataset's
  std::int64_t top = 5;
};

struct QuantizeOptions {
  std::string method = "dynamic";  // dynamic, static, weight_only, qat
  std::string output = "";
  std::string backend = "";          // empty: the config's
  std::string activations = "";      // affine, symmetric; empty: the config's
  std::string observer = "";         // empty: the config's
  std::int64_t activation_bits = 0;  // 0: the config's
  std::int64_t calibration_batches = 16;
  std::int64_t bits = 8;
  std::int64_t group_size = -1;  // -1: the usual one
  std::vector<std::string> keep_float = {};
  bool sweep = false;
};

struct DataBenchOptions {
  double seconds = 10;
  double warmup_s = 2;
  std::int64_t from = 0;  // sample of the first epoch
};

struct DataShardOptions {
  std::string output = "";
  std::int64_t shard_mib = 256;
  std::optional<std::int64_t> max_side = {};
  int quality = 90;
};

struct DataStatOptions {
  std::string html = "";  // empty: none
  std::int64_t max_samples = 10'000;
};

struct MeasureOptions {
  std::int64_t steps = 10;
  std::int64_t warmup = 3;
};

struct PlanOptions {
  std::int64_t world = 1;
  double memory_gib = 0;     // of the device; 0: what it has
  std::string device = "";   // by name; empty: this machine's
  double cost_per_hour = 0;  // of one device
  bool calibrate = false;    // measure this machine's rates again
};

struct EngineCall {
  std::string command;  // train, profile, measure, eval, export, generate, checkpoint verify, data prepare
  experiment::LoadedExperiment loaded;
  std::string run_dir = "";
  std::string resume = "auto";
  std::string checkpoint = "";
  std::string tokenizer = "";  // empty: the dataset's
  ExportOptions export_options = {};
  ConsolidateOptions consolidate = {};
  GenerateOptions generate_options = {};
  PredictOptions predict = {};
  QuantizeOptions quantize = {};
  DataBenchOptions data_bench = {};
  DataShardOptions data_shard = {};
  DataStatOptions data_stat = {};
  MeasureOptions measure = {};
  PlanOptions plan = {};
  bool verify = false;  // data prepare: read what is there
  Show show = Show::lines;
  bool json = false;
  std::chrono::steady_clock::time_point process_start;
};

/// The engine's only exported symbol: `int trainctl_engine_main(const EngineCall&)`. Returns the exit code, or throws.
inline constexpr const char* kEngineMain = "trainctl_engine_main";
using EngineMain = int (*)(const EngineCall&);

/// Loads the engine (and LibTorch with it) and calls it.
int call_engine(const EngineCall& call);

}  // namespace trainctl::cli
