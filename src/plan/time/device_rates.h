// How fast a device does each kind of work: measured on this machine, once, or from the data sheet of another.
#pragma once

#include <c10/core/Device.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "plan/time/machine_load.h"
#include "roofline/operations.h"

namespace trainctl::plan {

/// Work of one kind, by the type of its numbers.
struct RateKey {
  roofline::WorkKind kind = roofline::WorkKind::stream;
  at::ScalarType dtype = at::kFloat;
  roofline::PixelOrder order =
      roofline::PixelOrder::channels_first;  // of convolutions, normalisation and pooling of images
  bool is_narrow = false;                    // products of which one extent is small

  auto operator<=>(const RateKey&) const = default;
};
/// A small extent, and one from which on it doesn't matter.
inline constexpr std::int64_t kNarrow = 32;
inline constexpr std::int64_t kWide = 256;

/// Whether its work is counted in FLOPs; else in bytes.
bool is_computation(roofline::WorkKind kind);

/// Seconds that an operator takes, by its work: straight in logarithms between what was measured.
class RateCurve {
 public:
  void add(double work, double seconds);
  double seconds(double work) const;
  bool is_empty() const { return points_.empty(); }
  const std::map<double, double>& points() const { return points_; }

 private:
  std::map<double, double> points_;  // work -> seconds
};

struct DeviceRates {
  std::string device;
  std::map<RateKey, RateCurve> curves;
  double seconds_per_call = 0;  // of everything that is dispatched, besides its work
  /// Curves that were measured while the machine was busy, with the share of the time that others took. They are used
  /// until they are measured again.
  std::map<RateKey, double> disturbed;
  double calls_disturbed = 0;   // the same of seconds_per_call; 0: it was measured undisturbed
  double link_bytes_per_s = 0;  // between ranks, each direction

  /// Returns the curve of a kind and type of work; null if there is none to take. A type without a curve takes that of
  /// floats: it is as fast by its bytes or FLOPs. A kind without a curve takes that of the nearest kind that has one. A
  /// narrow product or channels_last without a curve takes that of the wide one or channels_first.
  const RateCurve* find(const RateKey& key) const;
};

/// The device of a data sheet.
struct NamedDevice {
  std::string_view name;
  double memory_gib;                             // what a process may use of it
  double fp32_tflops, tf32_tflops, half_tflops;  // dense; half: bf16 and fp16 with sums of fp32
  double memory_gb_per_s;
  double link_gb_per_s;  // to a peer in its machine, each direction
};
/// By name, whatever its case and spaces; null where there is none. Then all.
const NamedDevice* find_device(std::string_view name);
const std::vector<NamedDevice>& named_devices();
/// What training usually reaches of a data sheet's figures. `allows_tf32`: for products of floats.
enum class FloatProducts { fp32, tf32 };
DeviceRates rates_of(const NamedDevice& device, FloatProducts products);

/// The rates of the device under this process, kept in a file. measure() takes some tens of milliseconds per kind of
/// work, and one or two seconds for all kinds that a network needs.
class MeasuredRates {
 public:
  /// $XDG_CACHE_HOME/trainctl/rates, or ~/.cache/…; in a file for each device (of a CPU its model and instruction
  /// sets), number of threads and version.
  static std::filesystem::path default_directory();

  /// Reads what `directory` has; `renew` forgets it.
  enum class Kept { read, renew };
  MeasuredRates(c10::Device device, std::filesystem::path directory, Kept kept = Kept::read,
                LoadReader load = &read_load_counters);

  const DeviceRates& rates() const { return rates_; }
  /// Whether a kind of work was measured, and undisturbed.
  bool knows(const RateKey& key) const;
  /// The largest share of the time that others took while what `operations` need was measured; 0: undisturbed.
  double disturbed_share(const roofline::Operations& operations) const;
  /// The kinds of work in `operations` that aren't known yet, or only as a busy machine did them, most bytes first.
  std::vector<RateKey> missing(const roofline::Operations& operations) const;
  /// Measures the rates of `keys`, again if the machine was busy. Keeps them in the file, with the share of the time
  /// that others took. Passes over a file that can't be written.
  void measure(const std::vector<RateKey>& keys);

 private:
  /// Calls `measure_once` a second time if the machine was busy, and keeps what was disturbed less. Returns the share
  /// that others took; 0: so little that it doesn't matter.
  template <class Measured>
  double measure_undisturbed(Measured& kept, const std::function<Measured()>& measure_once) const;

  c10::Device device_;
  std::filesystem::path file_;
  LoadReader load_;
  DeviceRates rates_;
};

/// Where the time of an operation is looked up.
RateKey key_of(const roofline::Operation& operation);

/// Some sizes of a kind of work, each the median of a few runs; empty where the device has no such operator or type.
RateCurve measure_curve(const RateKey& key, c10::Device device, const core::Clock& now = &core::steady_now);
/// What a call costs besides its work, in a small network's forward and backward pass.
double measure_seconds_per_call(c10::Device device);

}  // namespace trainctl::plan
