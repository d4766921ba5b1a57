#include "tracking/record.h"
#include "core/json.h"

#include <cmath>

namespace trainctl::tracking {
namespace {

using nlohmann::ordered_json;

constexpr auto kReplace = ordered_json::error_handler_t::replace;

ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

}  // namespace

void Record::text(std::string_view key, std::string_view value) {
  json_[std::string(key)] = value;
}

void Record::count(std::string_view key, std::int64_t value) {
  json_[std::string(key)] = value;
}

void Record::number(std::string_view key, double value) {
  json_[std::string(key)] = number_or_null(value);
  if (!std::isfinite(value)) non_finite_ = true;
}

void Record::object(std::string_view key, ordered_json value) {
  json_[std::string(key)] = std::move(value);
}

void Record::numbers(std::string_view key, const std::vector<std::pair<std::string, double>>& values) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, value] : values) {
    object[name] = number_or_null(value);
    if (!std::isfinite(value)) non_finite_ = true;
  }
  json_[std::string(key)] = std::move(object);
}

ordered_json Record::finished() const {
  ordered_json json = json_;
  if (non_finite_) json["non_finite"] = true;
  return json;
}

std::string Record::line() const {
  return finished().dump(-1, ' ', false, kReplace) + "\n";
}

std::string Record::pretty() const {
  return core::indented_json(finished()) + "\n";
}

}  // namespace trainctl::tracking
