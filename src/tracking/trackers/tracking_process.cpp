#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "tracking/child_process.h"
#include "tracking/trackers/live.h"

namespace trainctl::tracking {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr std::string_view kWarning = "warning: ";
constexpr std::chrono::milliseconds kPollInterval{20};
constexpr std::chrono::seconds kUntoldWait{1};
/// A run that a signal stopped has to end soon: train/loop/stop_signal.h ends the process after 1.5 s.
constexpr double kLongestWaitWhenStopped = 0.5;

class TrackingProcess final : public Sink {
 public:
  explicit TrackingProcess(TrackingProcessOptions options)
      : options_(std::move(options)), log_(options_.run_directory / "logs" / ("track_" + options_.tracker + ".log")) {}
  TrackingProcess(const TrackingProcess&) = delete;
  TrackingProcess& operator=(const TrackingProcess&) = delete;
  /// Closes the pipe. The process then delivers the rest by itself, for a minute at most.
  ~TrackingProcess() override { close_pipe(); }

  void on(const Event& event) override {
    if (std::holds_alternative<RunStarted>(event)) start();
    if (std::holds_alternative<StepLogged>(event) || std::holds_alternative<Evaluated>(event)) tell_warnings();
    if (const auto* finished = std::get_if<RunFinished>(&event))
      end(finished->outcome == Outcome::stopped ? std::min(options_.longest_wait_s, kLongestWaitWhenStopped)
                                                : options_.longest_wait_s);
  }

 private:
  void start() {
    fs::create_directories(log_.parent_path());
    const int output = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (output < 0) throw core::system_error("open", log_.string());
    log_read_ = fs::file_size(log_);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      ::close(output);
      throw core::system_error("make", "a pipe");
    }
    pipe_ = ends[1];
    const std::string program = own_program();
    try {
      process_ = spawn_child(
          program,
          {program, "track", fs::absolute(options_.run_directory).string(), "--to", options_.tracker, "--follow"},
          ends[0], output);
    } catch (...) {
      ::close(ends[0]);
      ::close(output);
      close_pipe();
      throw;
    }
    ::close(ends[0]);
    ::close(output);
  }

  /// Throws the process's first warning since the last look as an Error.
  void tell_warnings() {
    std::error_code missing;
    const std::uintmax_t size = fs::file_size(log_, missing);
    if (missing || size <= log_read_) return;
    const std::string text = core::read_file(log_).substr(log_read_);
    log_read_ += text.size();
    const std::size_t begin = text.find(kWarning);
    if (begin == std::string::npos) return;
    const std::string line = text.substr(begin + kWarning.size());
    throw core::Error(line.substr(0, line.find('\n')));
  }

  void end(double longest_wait_s) {
    close_pipe();
    if (process_ > 0) wait(longest_wait_s);
    tell_undelivered();
  }

  /// Waits for the process within the limit, and ends it then: what it has not delivered, a later one delivers.
  void wait(double longest_wait_s) {
    const auto begin = steady_clock::now();
    const std::chrono::duration<double> limit(longest_wait_s);
    bool is_told = false;
    while (::waitpid(process_, nullptr, WNOHANG) == 0) {
      const auto waited = steady_clock::now() - begin;
      if (waited >= limit) {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        break;
      }
      if (!is_told && waited > kUntoldWait) {
        core::log().info("tracking: waits for " + options_.tracker + ", " + core::format_duration(longest_wait_s) +
                         " at most");
        is_told = true;
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    process_ = -1;
  }

  void tell_undelivered() const {
    const std::int64_t count = num_undelivered(options_.run_directory, options_.tracker);
    if (count == 0 && is_end_delivered(options_.run_directory, options_.tracker)) return;
    const std::string what = count == 0   ? "the run's end is"
                             : count == 1 ? "1 record is"
                                          : core::format_count(count) + " records are";
    core::log().warning("tracking: " + what + " not delivered to " + options_.tracker + "; `trainctl track " +
                        options_.run_directory.string() + " --to " + options_.tracker + "` delivers them");
  }

  void close_pipe() {
    if (pipe_ >= 0) ::close(std::exchange(pipe_, -1));
  }

  TrackingProcessOptions options_;
  fs::path log_;
  std::uintmax_t log_read_ = 0;
  int pipe_ = -1;
  pid_t process_ = -1;
};

}  // namespace

std::unique_ptr<Sink> make_tracking_process(const TrackingProcessOptions& options) {
  return std::make_unique<TrackingProcess>(options);
}

}  // namespace trainctl::tracking
