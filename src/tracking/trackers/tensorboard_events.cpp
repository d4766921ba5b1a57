#include "tracking/trackers/tensorboard_events.h"

#include <bit>
#include <boost/crc.hpp>
#include <initializer_list>
#include <protozero/pbf_writer.hpp>

namespace trainctl::tracking {
namespace {

using protozero::pbf_tag_type;
using protozero::pbf_writer;

/// Field numbers of the messages that we write, from TensorFlow's event.proto, summary.proto and tensor.proto.
namespace event_field {
constexpr pbf_tag_type kWallTime = 1;  // double: seconds since the epoch
constexpr pbf_tag_type kStep = 2;      // int64
constexpr pbf_tag_type kFileVersion = 3;
constexpr pbf_tag_type kSummary = 5;     // message with values
constexpr pbf_tag_type kSessionLog = 7;  // message
}  // namespace event_field
constexpr pbf_tag_type kSummaryValue = 1;  // message, repeated
namespace value_field {
constexpr pbf_tag_type kTag = 1;
constexpr pbf_tag_type kSimpleValue = 2;  // float
constexpr pbf_tag_type kTensor = 8;
constexpr pbf_tag_type kMetadata = 9;
}  // namespace value_field
namespace tensor_field {
constexpr pbf_tag_type kType = 1;
constexpr pbf_tag_type kShape = 2;
constexpr pbf_tag_type kContent = 4;  // the values' bytes
constexpr pbf_tag_type kString = 8;
constexpr std::int32_t kFloatType = 1;
constexpr std::int32_t kDoubleType = 2;
constexpr std::int32_t kStringType = 7;
constexpr pbf_tag_type kDim = 2;   // of TensorShapeProto
constexpr pbf_tag_type kSize = 1;  // of its Dim
}  // namespace tensor_field
namespace metadata_field {
constexpr pbf_tag_type kPluginData = 1;
constexpr pbf_tag_type kDisplayName = 2;
constexpr pbf_tag_type kPluginName = 1;  // of PluginData
constexpr pbf_tag_type kContent = 2;     // of PluginData
}  // namespace metadata_field
/// Field numbers of tensorboard/plugins/hparams/plugin_data.proto.
namespace hparams_field {
constexpr pbf_tag_type kSessionStart = 3;
constexpr pbf_tag_type kSessionEnd = 4;
constexpr pbf_tag_type kHparams = 1;  // of SessionStartInfo: a map from text to google.protobuf.Value
constexpr pbf_tag_type kStartTime = 5;
constexpr pbf_tag_type kStatus = 1;  // of SessionEndInfo
constexpr pbf_tag_type kEndTime = 2;
constexpr pbf_tag_type kNumber = 2;  // of Value
constexpr pbf_tag_type kText = 3;
constexpr pbf_tag_type kBoolean = 4;
}  // namespace hparams_field
/// Field numbers of SessionLog. Status START discards what was recorded from this step on.
namespace session_log {
constexpr pbf_tag_type kStatus = 1;
constexpr std::int32_t kStart = 1;
}  // namespace session_log

/// Returns a masked CRC-32C: rotated and shifted, since the checksum of bytes that contain checksums is weak.
std::uint32_t masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}

template <typename Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes(sizeof value, '\0');
  for (char& byte : bytes) byte = static_cast<char>(value & 0xff), value = static_cast<Unsigned>(value >> 8);
  return bytes;
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc32c(length)) + std::string(data) + little_endian(masked_crc32c(data));
}

std::string event_record(pbf_tag_type field, std::string_view content, const EventPlace& place) {
  std::string bytes;
  pbf_writer record(bytes);
  record.add_double(event_field::kWallTime, place.time);
  if (place.step != 0) record.add_int64(event_field::kStep, place.step);  // protobuf omits zeros
  record.add_bytes(field, content.data(), content.size());
  return tf_record(bytes);
}

struct Metadata {
  std::string plugin;
  std::string content = {};
  std::string display_name = {};
};

void add_metadata(pbf_writer& value, const Metadata& of) {
  pbf_writer metadata(value, value_field::kMetadata);
  {
    pbf_writer data(metadata, metadata_field::kPluginData);
    data.add_string(metadata_field::kPluginName, of.plugin);
    data.add_bytes(metadata_field::kContent, of.content);
  }
  if (!of.display_name.empty()) metadata.add_string(metadata_field::kDisplayName, of.display_name);
}

void add_shape(pbf_writer& tensor, std::initializer_list<std::int64_t> sizes) {
  pbf_writer shape(tensor, tensor_field::kShape);
  for (const std::int64_t size : sizes) {
    pbf_writer dim(shape, tensor_field::kDim);
    dim.add_int64(tensor_field::kSize, size);
  }
}

void add_hparam(pbf_writer& hparams, const std::string& name, const nlohmann::ordered_json& value) {
  pbf_writer entry(hparams, hparams_field::kHparams);
  entry.add_string(1, name);  // of a map's entry
  pbf_writer content(entry, 2);
  if (value.is_boolean())
    content.add_bool(hparams_field::kBoolean, value.get<bool>());
  else if (value.is_number())
    content.add_double(hparams_field::kNumber, value.get<double>());
  else
    content.add_string(hparams_field::kText, value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

void SummaryValues::add_scalar(const std::string& tag, double value) {
  pbf_writer values(bytes_);
  pbf_writer item(values, kSummaryValue);
  item.add_string(value_field::kTag, tag);
  item.add_float(value_field::kSimpleValue, static_cast<float>(value));
}

void SummaryValues::add_text(const std::string& tag, const std::string& markdown) {
  pbf_writer values(bytes_);
  pbf_writer item(values, kSummaryValue);
  item.add_string(value_field::kTag, tag);
  add_metadata(item, {.plugin = "text"});
  pbf_writer tensor(item, value_field::kTensor);
  tensor.add_int32(tensor_field::kType, tensor_field::kStringType);
  add_shape(tensor, {1});
  tensor.add_string(tensor_field::kString, markdown);
}

/// The tensor is double [bins, 3]: each bin's edges and count (tensorboard/plugins/histogram/summary_v2.py).
void SummaryValues::add_histogram(const std::string& tag, const Histogram& histogram) {
  const std::size_t num_bins = histogram.counts.size();
  std::string bins;
  for (std::size_t i = 0; i < num_bins; ++i)
    for (const double value : {histogram.edge(i), histogram.edge(i + 1), static_cast<double>(histogram.counts[i])})
      bins += little_endian(std::bit_cast<std::uint64_t>(value));
  pbf_writer values(bytes_);
  pbf_writer item(values, kSummaryValue);
  item.add_string(value_field::kTag, tag);
  add_metadata(item, {.plugin = "histograms"});
  pbf_writer tensor(item, value_field::kTensor);
  tensor.add_int32(tensor_field::kType, tensor_field::kDoubleType);
  add_shape(tensor, {static_cast<std::int64_t>(num_bins), 3});
  tensor.add_bytes(tensor_field::kContent, bins);
}

/// The tensor is of texts [3]: width, height and file (tensorboard/plugins/image/summary_v2.py).
void SummaryValues::add_image(const std::string& tag, const EncodedImage& image, const std::string& caption) {
  pbf_writer values(bytes_);
  pbf_writer item(values, kSummaryValue);
  item.add_string(value_field::kTag, tag);
  add_metadata(item, {.plugin = "images", .display_name = caption});
  pbf_writer tensor(item, value_field::kTensor);
  tensor.add_int32(tensor_field::kType, tensor_field::kStringType);
  add_shape(tensor, {3});
  for (const std::string& text : {std::to_string(image.width), std::to_string(image.height), image.bytes})
    tensor.add_string(tensor_field::kString, text);
}

void SummaryValues::add_hparams_data(const std::string& tag, const std::string& plugin_content) {
  pbf_writer values(bytes_);
  pbf_writer item(values, kSummaryValue);
  item.add_string(value_field::kTag, tag);
  add_metadata(item, {.plugin = "hparams", .content = plugin_content});
  pbf_writer tensor(item, value_field::kTensor);  // without values
  tensor.add_int32(tensor_field::kType, tensor_field::kFloatType);
  add_shape(tensor, {0});
}

void SummaryValues::add_session_start(const nlohmann::ordered_json& hparams, double unix_time) {
  std::string content;
  pbf_writer data(content);
  {
    pbf_writer start(data, hparams_field::kSessionStart);
    for (const auto& [name, value] : hparams.items()) add_hparam(start, name, value);
    start.add_double(hparams_field::kStartTime, unix_time);
  }
  add_hparams_data("_hparams_/session_start_info", content);
}

void SummaryValues::add_session_end(SessionStatus status, double unix_time) {
  std::string content;
  pbf_writer data(content);
  {
    pbf_writer end(data, hparams_field::kSessionEnd);
    end.add_enum(hparams_field::kStatus, static_cast<std::int32_t>(status));
    end.add_double(hparams_field::kEndTime, unix_time);
  }
  add_hparams_data("_hparams_/session_end_info", content);
}

std::string version_record(double unix_time) {
  return event_record(event_field::kFileVersion, "brain.Event:2", {.time = unix_time, .step = 0});
}

std::string discard_record(const EventPlace& place) {
  std::string log;
  pbf_writer(log).add_enum(session_log::kStatus, session_log::kStart);
  return event_record(event_field::kSessionLog, log, place);
}

std::string summary_record(const SummaryValues& values, const EventPlace& place) {
  return event_record(event_field::kSummary, values.bytes(), place);
}

}  // namespace trainctl::tracking
