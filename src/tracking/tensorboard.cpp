// Writes TensorBoard's event files: TFRecords (tensorflow/core/lib/io/record_writer.cc) of protobuf events.
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

#include "core/error.h"
#include "tracking/append_file.h"
#include "tracking/sinks.h"

namespace trainctl::tracking {
namespace {

/// Field numbers of the messages that we write, from TensorFlow's event.proto and summary.proto.
namespace event {
constexpr protozero::pbf_tag_type kWallTime = 1;  // double: seconds since the epoch
constexpr protozero::pbf_tag_type kStep = 2;      // int64
constexpr protozero::pbf_tag_type kFileVersion = 3;
constexpr protozero::pbf_tag_type kSummary = 5;     // message with values
constexpr protozero::pbf_tag_type kSessionLog = 7;  // message
}  // namespace event
namespace summary {
constexpr protozero::pbf_tag_type kValue = 1;  // message, repeated
}
namespace summary_value {
constexpr protozero::pbf_tag_type kTag = 1;
constexpr protozero::pbf_tag_type kSimpleValue = 2;  // float
}  // namespace summary_value
/// Field numbers of SessionLog. Status START discards what was recorded from this step on.
namespace session_log {
constexpr protozero::pbf_tag_type kStatus = 1;
constexpr std::int32_t kStart = 1;
}  // namespace session_log

/// Scalars of one step.
class ScalarSummary {
 public:
  void add(const std::string& tag, double value) {
    protozero::pbf_writer values(bytes_);
    protozero::pbf_writer item(values, summary::kValue);
    item.add_string(summary_value::kTag, tag);
    item.add_float(summary_value::kSimpleValue, static_cast<float>(value));
  }
  bool is_empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

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

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns a name that sorts after those of earlier runs, the order in which TensorBoard reads files.
std::filesystem::path new_event_file(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  auto second = static_cast<std::int64_t>(unix_time());
  const std::string host = host_name();
  const auto path = [&] { return directory / ("events.out.tfevents." + std::to_string(second) + "." + host); };
  while (std::filesystem::exists(path())) ++second;
  return path();
}

class TensorBoard final : public Sink {
 public:
  TensorBoard(const std::filesystem::path& directory, std::int64_t first_step)
      : file_(new_event_file(directory), IfExists::refuse), last_step_(first_step) {
    write(event::kFileVersion, "brain.Event:2", 0);
    void_from(first_step + 1);
  }

  void on(const Event& event) override {
    if (const auto* step = std::get_if<StepLogged>(&event)) write_step(*step);
    if (const auto* evaluated = std::get_if<Evaluated>(&event)) write_evaluation(*evaluated);
  }

 private:
  void write_step(const StepLogged& step) {
    if (step.step <= last_step_) void_from(step.step);  // rolled back
    last_step_ = step.step;
    ScalarSummary values;
    if (step.loss) values.add("train/loss", *step.loss);
    values.add("train/lr", step.lr);
    if (step.grad_norm) values.add("train/grad_norm", *step.grad_norm);
    if (step.loss_scale) values.add("train/loss_scale", *step.loss_scale);
    values.add("train/samples_per_s", step.samples_per_s);
    if (step.tokens_per_s > 0) values.add("train/tokens_per_s", step.tokens_per_s);
    values.add("train/step_ms", step.step_ms);
    values.add("train/data_wait_ms", step.data_wait_ms);
    if (step.mfu) values.add("train/mfu", *step.mfu);
    if (step.communication_ms) {
      values.add("train/communication_ms", *step.communication_ms);
      values.add("train/exposed_communication_ms", *step.exposed_communication_ms);
    }
    values.add("train/memory_mib", step.memory_mib);
    values.add("train/epoch", static_cast<double>(step.epoch));
    write(event::kSummary, values.bytes(), step.step);
  }

  void write_evaluation(const Evaluated& evaluated) {
    ScalarSummary values;
    for (const auto& [name, value] : evaluated.metrics) values.add("eval/" + name, value);
    if (!values.is_empty()) write(event::kSummary, values.bytes(), evaluated.step);
  }

  /// Makes TensorBoard discard earlier records of this step and later ones.
  void void_from(std::int64_t step) {
    std::string log;
    protozero::pbf_writer(log).add_enum(session_log::kStatus, session_log::kStart);
    write(event::kSessionLog, log, step);
  }

  void write(protozero::pbf_tag_type field, std::string_view content, std::int64_t step) {
    std::string bytes;
    protozero::pbf_writer record(bytes);
    record.add_double(event::kWallTime, unix_time());
    if (step != 0) record.add_int64(event::kStep, step);  // protobuf omits zeros
    record.add_bytes(field, content.data(), content.size());
    file_.append(tf_record(bytes));
  }

  AppendFile file_;
  std::int64_t last_step_;
};

}  // namespace

std::unique_ptr<Sink> make_tensorboard(const TrackerOptions& options) {
  return std::make_unique<TensorBoard>(options.run_directory / "tensorboard", options.resumed ? options.first_step : 0);
}

}  // namespace trainctl::tracking
