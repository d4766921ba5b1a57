// TensorBoard's event files: TFRecords (tensorflow/core/lib/io/record_writer.cc) of protobuf events.
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/error.h"
#include "tensorboard.pb.h"
#include "tracking/append_file.h"
#include "tracking/sinks.h"

namespace trainctl {
namespace {

using tensorboard::SessionLog;

/// CRC-32C, rotated and shifted so that a checksum of bytes that hold checksums stays a good one.
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

/// A name that sorts after those of earlier runs, for TensorBoard reads in that order.
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
    tensorboard::Event version;
    version.set_file_version("brain.Event:2");
    write(version, 0);
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
    tensorboard::Event event;
    add(event, "train/loss", step.loss);
    add(event, "train/lr", step.lr);
    if (step.grad_norm) add(event, "train/grad_norm", *step.grad_norm);
    if (step.loss_scale) add(event, "train/loss_scale", *step.loss_scale);
    add(event, "train/samples_per_s", step.samples_per_s);
    if (step.tokens_per_s > 0) add(event, "train/tokens_per_s", step.tokens_per_s);
    add(event, "train/step_ms", step.step_ms);
    add(event, "train/data_wait_ms", step.data_wait_ms);
    if (step.mfu) add(event, "train/mfu", *step.mfu);
    if (step.communication_ms) {
      add(event, "train/communication_ms", *step.communication_ms);
      add(event, "train/exposed_communication_ms", *step.exposed_communication_ms);
    }
    add(event, "train/memory_mib", step.memory_mib);
    add(event, "train/epoch", static_cast<double>(step.epoch));
    write(event, step.step);
  }

  void write_evaluation(const Evaluated& evaluated) {
    tensorboard::Event event;
    for (const auto& [name, value] : evaluated.metrics) add(event, "eval/" + name, value);
    if (event.summary().value_size() > 0) write(event, evaluated.step);
  }

  /// Tells TensorBoard to forget what earlier files or records say of this step and later ones.
  void void_from(std::int64_t step) {
    tensorboard::Event event;
    event.mutable_session_log()->set_status(SessionLog::START);
    write(event, step);
  }

  static void add(tensorboard::Event& event, const std::string& tag, double value) {
    auto* item = event.mutable_summary()->add_value();
    item->set_tag(tag);
    item->set_simple_value(static_cast<float>(value));
  }

  void write(tensorboard::Event& event, std::int64_t step) {
    event.set_wall_time(unix_time());
    event.set_step(step);
    file_.append(tf_record(event.SerializeAsString()));
  }

  AppendFile file_;
  std::int64_t last_step_;
};

}  // namespace

std::unique_ptr<Sink> make_tensorboard(const TrackerOptions& options) {
  return std::make_unique<TensorBoard>(options.run_directory / "tensorboard", options.resumed ? options.first_step : 0);
}

}  // namespace trainctl
