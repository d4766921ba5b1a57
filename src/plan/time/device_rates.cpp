#include "plan/time/device_rates.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include <ATen/Parallel.h>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/version.h"
#include "runtime/cpu_kind.h"
#include "runtime/device.h"

namespace trainctl::plan {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTries = 2;  // of a measurement while the machine is busy
constexpr int kFormat = 3;     // of the file and of what is measured

/// Returns the measured kind whose rates are nearest to those of an unmeasured one.
roofline::WorkKind nearest(roofline::WorkKind kind) {
  using enum roofline::WorkKind;
  static const std::map<roofline::WorkKind, roofline::WorkKind> nearest_kinds{{convolution_backward, convolution},
                                                                              {stem, convolution},
                                                                              {depthwise, convolution},
                                                                              {pointwise_backward, pointwise},
                                                                              {stem_backward, stem},
                                                                              {depthwise_backward, depthwise},
                                                                              {attention_backward, attention},
                                                                              {recurrence_backward, recurrence}};
  const auto found = nearest_kinds.find(kind);
  if (found != nearest_kinds.end()) return found->second;
  return is_computation(kind) ? product : stream;
}

bool depends_on_order(roofline::WorkKind kind) {
  using enum roofline::WorkKind;
  return (kind >= convolution && kind <= depthwise_backward) || (kind >= batch_norm && kind <= pooling_backward);
}

/// Returns the type at which an operation is measured: integers and truth values move like floats.
at::ScalarType measured_type(const roofline::Operation& operation) {
  const at::ScalarType dtype = operation.dtype;
  return dtype == at::kBFloat16 || dtype == at::kHalf || dtype == at::kDouble ? dtype : at::kFloat;
}

std::string file_name(c10::Device device) {
  const std::string what = runtime::describe(device) + "|" + (device.is_cpu() ? runtime::cpu_kind() : "") + "|" +
                           std::to_string(at::get_num_threads()) + "|" + std::string(core::kVersion) + "|" +
                           std::to_string(kFormat);
  return "rates_" + core::checksum(what) + ".json";
}

roofline::WorkKind kind_named(const std::string& name) {
  for (std::size_t i = 0; i < roofline::kNumWorkKinds; ++i)
    if (name_of(static_cast<roofline::WorkKind>(i)) == name) return static_cast<roofline::WorkKind>(i);
  throw core::Error("unknown kind of work " + name);
}

nlohmann::json to_json(const DeviceRates& rates) {
  nlohmann::json curves = nlohmann::json::array();
  for (const auto& [key, curve] : rates.curves) {
    nlohmann::json points = nlohmann::json::array();
    for (const auto& [work, seconds] : curve.points()) points.push_back({work, seconds});
    const auto disturbed = rates.disturbed.find(key);
    curves.push_back({{"kind", name_of(key.kind)},
                      {"dtype", c10::toString(key.dtype)},
                      {"channels_last", key.order == roofline::PixelOrder::channels_last},
                      {"narrow", key.is_narrow},
                      {"disturbed", disturbed == rates.disturbed.end() ? 0.0 : disturbed->second},
                      {"points", points}});
  }
  return {{"device", rates.device},
          {"seconds_per_call", rates.seconds_per_call},
          {"calls_disturbed", rates.calls_disturbed},
          {"curves", curves}};
}

at::ScalarType dtype_named(const std::string& name) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    if (name == c10::toString(dtype)) return dtype;
  throw core::Error("unknown type " + name);
}

DeviceRates rates_from(const nlohmann::json& json) {
  DeviceRates rates;
  rates.device = json.at("device");
  rates.seconds_per_call = json.at("seconds_per_call");
  rates.calls_disturbed = json.at("calls_disturbed");
  for (const nlohmann::json& entry : json.at("curves")) {
    const RateKey key{.kind = kind_named(entry.at("kind")),
                      .dtype = dtype_named(entry.at("dtype")),
                      .order = entry.at("channels_last").get<bool>() ? roofline::PixelOrder::channels_last
                                                                     : roofline::PixelOrder::channels_first,
                      .is_narrow = entry.at("narrow")};
    for (const nlohmann::json& point : entry.at("points"))
      if (point.at(0) > 0.0 && point.at(1) > 0.0) rates.curves[key].add(point.at(0), point.at(1));
    if (entry.at("disturbed") > 0.0) rates.disturbed[key] = entry.at("disturbed");
  }
  return rates;
}

}  // namespace

bool is_computation(roofline::WorkKind kind) {
  return kind < roofline::WorkKind::stream;
}

void RateCurve::add(double work, double seconds) {
  core::ensure(work > 0 && seconds > 0, "a rate needs work and time");
  points_[work] = seconds;
}

double RateCurve::seconds(double work) const {
  core::ensure(!points_.empty(), "a curve without points was asked");
  if (work <= 0) return 0;
  const auto above = points_.lower_bound(work);
  // Less work than any that was measured takes its share, but calls don't get cheaper for ever: that is counted apart.
  if (above == points_.begin()) return above->second * std::max(0.25, work / above->first);
  if (above == points_.end()) return points_.rbegin()->second * work / points_.rbegin()->first;
  const auto below = std::prev(above);
  const double share = std::log(work / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

const RateCurve* DeviceRates::find(const RateKey& key) const {
  RateKey wanted = key;
  for (int widened = 0; widened < 8; ++widened) {
    if (const auto found = curves.find(wanted); found != curves.end() && !found->second.is_empty())
      return &found->second;
    if (wanted.is_narrow)
      wanted.is_narrow = false;
    else if (wanted.order == roofline::PixelOrder::channels_last)
      wanted.order = roofline::PixelOrder::channels_first;
    else if (wanted.dtype != at::kFloat)
      wanted.dtype = at::kFloat;
    else if (nearest(wanted.kind) != wanted.kind)
      wanted = {.kind = nearest(wanted.kind), .dtype = key.dtype, .order = key.order, .is_narrow = false};
    else
      return nullptr;
  }
  return nullptr;
}

RateKey key_of(const roofline::Operation& operation) {
  return {.kind = operation.kind,
          .dtype = measured_type(operation),
          .order = depends_on_order(operation.kind) ? operation.order : roofline::PixelOrder::channels_first,
          .is_narrow = operation.kind == roofline::WorkKind::product && operation.least_extent < kWide};
}

fs::path MeasuredRates::default_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return fs::path(cache) / "trainctl" / "rates";
  const char* home = std::getenv("HOME");
  return (home != nullptr && *home != '\0' ? fs::path(home) : fs::temp_directory_path()) / ".cache" / "trainctl" /
         "rates";
}

MeasuredRates::MeasuredRates(c10::Device device, fs::path directory, Kept kept, LoadReader load)
    : device_(device), file_(directory / file_name(device)), load_(std::move(load)) {
  rates_.device = runtime::describe(device);
  if (kept == Kept::renew || !fs::exists(file_)) return;
  try {
    rates_ = rates_from(core::parse_json(core::read_file(file_, 1 << 20), file_.string()));
  } catch (const std::exception&) {  // it is only a cache: measured again
    rates_ = {.device = runtime::describe(device), .curves = {}, .disturbed = {}};
  }
}

bool MeasuredRates::knows(const RateKey& key) const {
  return rates_.curves.contains(key) && !rates_.disturbed.contains(key);
}

double MeasuredRates::disturbed_share(const roofline::Operations& operations) const {
  double most = rates_.calls_disturbed;
  for (const roofline::Operation& operation : operations.list)
    if (const auto found = rates_.disturbed.find(key_of(operation)); found != rates_.disturbed.end())
      most = std::max(most, found->second);
  return most;
}

std::vector<RateKey> MeasuredRates::missing(const roofline::Operations& operations) const {
  std::map<RateKey, double> bytes;
  for (const roofline::Operation& operation : operations.list) {
    const RateKey key = key_of(operation);
    bytes[key] += operation.bytes;
    // Between narrow and wide both are asked.
    if (key.is_narrow) bytes[{.kind = key.kind, .dtype = key.dtype, .order = key.order, .is_narrow = false}] += 1;
  }
  std::vector<RateKey> keys;
  for (const auto& [key, moved] : bytes)
    if (!knows(key)) keys.push_back(key);
  std::stable_sort(keys.begin(), keys.end(), [&](const RateKey& a, const RateKey& b) { return bytes[a] > bytes[b]; });
  return keys;
}

template <class Measured>
double MeasuredRates::measure_undisturbed(Measured& kept, const std::function<Measured()>& measure_once) const {
  double least = std::numeric_limits<double>::infinity();
  for (int tries = 0; tries < kMostTries && least > kBusyShare; ++tries) {
    const LoadCounters begin = load_();
    Measured measured = measure_once();
    const double share = taken_share(begin, load_());
    if (share < least) kept = std::move(measured);
    least = std::min(least, share);
  }
  return least > kBusyShare ? least : 0;
}

void MeasuredRates::measure(const std::vector<RateKey>& keys) {
  if (rates_.seconds_per_call == 0 || rates_.calls_disturbed > 0)
    rates_.calls_disturbed =
        measure_undisturbed<double>(rates_.seconds_per_call, [&] { return measure_seconds_per_call(device_); });
  for (const RateKey& key : keys) {
    const double share =
        measure_undisturbed<RateCurve>(rates_.curves[key], [&] { return measure_curve(key, device_); });
    rates_.disturbed.erase(key);
    if (share > 0) rates_.disturbed[key] = share;
  }
  try {
    fs::create_directories(file_.parent_path());
    core::write_file_atomically(file_, to_json(rates_).dump(1) + "\n");
  } catch (const std::exception&) {  // a home that can't be written to: measured again next time
  }
}

}  // namespace trainctl::plan
