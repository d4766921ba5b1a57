// TensorBoard's event files in parts: TFRecords (tensorflow/core/lib/io/record_writer.cc) of protobuf events.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tracking/event.h"

namespace trainctl::tracking {

/// An image in the bytes of a PNG or JPEG file. A page takes the size from the bytes.
struct EncodedImage {
  std::int64_t width = 0;  // 0: not told
  std::int64_t height = 0;
  std::string bytes = {};
};

/// The values that one event holds, as TensorFlow's summary.proto has them.
class SummaryValues {
 public:
  void add_scalar(const std::string& tag, double value);
  /// Adds text in Markdown, for the text plugin.
  void add_text(const std::string& tag, const std::string& markdown);
  /// Adds a distribution, for the histogram plugin.
  void add_histogram(const std::string& tag, const Histogram& histogram);
  /// Adds a picture. The caption stands above it, instead of the tag.
  void add_image(const std::string& tag, const EncodedImage& image, const std::string& caption = "");
  /// Adds the hyperparameters of a run that begins, for the hparams plugin. `hparams` has numbers, texts and truth
  /// values.
  void add_session_start(const nlohmann::ordered_json& hparams, double unix_time);
  enum class SessionStatus { success = 1, failure = 2 };
  void add_session_end(SessionStatus status, double unix_time);

  bool is_empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

 private:
  void add_hparams_data(const std::string& tag, const std::string& plugin_content);

  std::string bytes_;
};

/// Where an event stands.
struct EventPlace {
  double time = 0;  // Unix seconds
  std::int64_t step = 0;
};

/// Returns the record that an event file begins with.
std::string version_record(double unix_time);
/// Returns a record that makes TensorBoard discard what it has read of this step and later ones.
std::string discard_record(const EventPlace& place);
std::string summary_record(const SummaryValues& values, const EventPlace& place);

}  // namespace trainctl::tracking
