// TensorBoard's event files in parts: TFRecords (tensorflow/core/lib/io/record_writer.cc) of protobuf events.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trainctl::tracking {

/// An image in a PNG file's bytes.
struct PngImage {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::string bytes;
};

/// The values that one event holds, as TensorFlow's summary.proto has them.
class SummaryValues {
 public:
  void add_scalar(const std::string& tag, double value);
  /// Adds text in Markdown, for the text plugin.
  void add_text(const std::string& tag, const std::string& markdown);
  void add_image(const std::string& tag, const PngImage& image);
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
