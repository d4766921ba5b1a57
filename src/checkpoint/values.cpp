#include "checkpoint/values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::checkpoint {
namespace {

using Json = nlohmann::json;

/// JSON has no numbers that aren't finite: they stand as {"number": "inf"}.
Json json_of(double value) {
  if (std::isfinite(value)) return value;
  return {{"number", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}
Json json_of(std::int64_t value) {
  return value;
}
Json json_of(const std::string& value) {
  return value;
}

double number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string name = value.at("number").get<std::string>();
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  return name == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

/// A double is always written with a point or an exponent.
std::variant<std::int64_t, double, std::string> value_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return integer_in(value);
  return number_of(value);
}

}  // namespace

std::int64_t integer_in(const nlohmann::json& value) {
  const bool is_over = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  if (!value.is_number_integer() || is_over) throw core::Error(value.dump() + " stands where an integer should");
  return value.get<std::int64_t>();
}

std::int64_t count_in(const nlohmann::json& value) {
  const std::int64_t count = integer_in(value);
  if (count < 0) throw core::Error(value.dump() + " stands where a count should");
  return count;
}

std::string text_of_values(const Values& values) {
  Json named = Json::object();
  for (const auto& [name, value] : values.values)
    named[name] = std::visit([](const auto& v) { return json_of(v); }, value);
  Json metrics = Json::object();
  for (const auto& [name, value] : values.info.metrics) metrics[name] = json_of(value);
  const Json all = {{"step", values.info.step},
                    {"config", values.info.config},
                    {"metrics", metrics},
                    {"data_fingerprint", values.info.data_fingerprint},
                    {"data_description", values.info.data_description},
                    {"global_batch", values.info.global_batch},
                    {"values", named}};
  return all.dump(1) + "\n";
}

Values values_of_text(const std::string& text) {
  const Json all = Json::parse(text);
  Values read;
  for (const auto& [name, value] : all.at("values").items()) read.values[name] = value_of(value);
  for (const auto& [name, value] : all.at("metrics").items()) read.info.metrics[name] = number_of(value);
  read.info.step = count_in(all.at("step"));
  read.info.config = all.at("config").get<std::map<std::string, std::string>>();
  read.info.data_fingerprint = all.at("data_fingerprint");
  read.info.data_description = all.value("data_description", "");
  read.info.global_batch = count_in(all.value("global_batch", Json(0)));
  if (std::max(read.info.step, read.info.global_batch) > kMaxStep)
    throw core::Error("step and global_batch: too large, got " + std::to_string(read.info.step) + " and " +
                      std::to_string(read.info.global_batch) + "; expected at most " + std::to_string(kMaxStep));
  return read;
}

Values read_values(const std::filesystem::path& path) {
  const std::string text = core::read_file(path);
  try {
    return values_of_text(text);
  } catch (const std::exception& error) {
    throw core::Error(path.string() + " is damaged: " + core::as_error(error).what());
  }
}

}  // namespace trainctl::checkpoint
