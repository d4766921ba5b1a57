// state.json: what a checkpoint holds besides tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

namespace trainctl::checkpoint {

using StateValues = std::map<std::string, std::variant<std::int64_t, double, std::string>>;

/// What a checkpoint says of itself besides its state.
struct CheckpointInfo {
  std::int64_t step = 0;
  std::map<std::string, std::string> config;  // flattened resolved config: "optimizer.lr" -> "0.001"
  std::map<std::string, double> metrics;      // of the evaluation at this very step; empty where there was none
  std::string data_fingerprint;
  std::string data_description{};  // JSON, dataset/description.h; empty in checkpoints of 0.x before it
  std::int64_t global_batch = 0;   // samples of a step on all ranks
};

struct Values {
  StateValues values;
  CheckpointInfo info;
};

/// No run makes more steps; nor has it more epochs, or samples.
inline constexpr std::int64_t kMaxStep = std::int64_t{1} << 53;

/// Numbers read back bit for bit, those that aren't finite too.
std::string text_of_values(const Values& values);
/// Throws nlohmann::json::exception.
Values values_of_text(const std::string& text);
/// An integer that fits; an Error otherwise.
std::int64_t integer_in(const nlohmann::json& value);
/// Returns a count: an integer that fits and is not negative; an Error otherwise.
std::int64_t count_in(const nlohmann::json& value);
Values read_values(const std::filesystem::path& path);

}  // namespace trainctl::checkpoint
