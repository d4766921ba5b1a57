#include "core/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "core/error.h"
#include "core/terminal.h"

namespace trainctl::core {
namespace {

spdlog::level::level_enum level_of(Severity severity) {
  switch (severity) {
    case Severity::info:
      return spdlog::level::info;
    case Severity::warning:
      return spdlog::level::warn;
    case Severity::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// Nothing before a line but a warning's word: users read the lines, and a file of results has the times.
class Prefix final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& to) override {
    constexpr std::string_view kWarning = "warning: ";
    if (message.level == spdlog::level::warn) to.append(kWarning.data(), kWarning.data() + kWarning.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Prefix>(); }
};

class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string line(formatted.data(), formatted.size());
    line = without_controls(line);
    if (const std::optional<std::int64_t> columns = terminal_columns(descriptor_)) line = wrap_words(line, *columns);
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t put = ::write(descriptor_, line.data() + done, line.size() - done);
      if (put < 0 && errno != EINTR) throw system_error("write", "standard error");
      if (put > 0) done += static_cast<std::size_t>(put);
    }
  }
  void flush_() override {}

 private:
  int descriptor_;
};

}  // namespace

class Log::Logger : public spdlog::logger {
 public:
  using spdlog::logger::logger;
};

Log::Log(const Options& options)
    : logger_(std::make_unique<Logger>("trainctl", std::make_shared<DescriptorSink>(options.descriptor))) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<Prefix>('*').set_pattern("%*%v");
  logger_->set_formatter(std::move(formatter));
  logger_->set_level(level_of(options.least));
  logger_->set_error_handler([on_failure = options.on_failure](const std::string& message) {
    if (on_failure == OnWriteFailure::raise) throw Error(message);
  });
}

Log::~Log() = default;

void Log::write(Severity severity, std::string_view line) {
  logger_->log(level_of(severity), spdlog::string_view_t(line.data(), line.size()));
}

Log& log() {
  // Never destroyed: threads may still write while the process ends.
  static Log* const kept = new Log({.descriptor = STDERR_FILENO, .on_failure = OnWriteFailure::drop});
  return *kept;
}

}  // namespace trainctl::core
