#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "tracking/child_process.h"
#include "tracking/tracking.h"

namespace trainctl::tracking {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kReportPollInterval{5};
constexpr std::chrono::seconds kLongestReport{20};
/// train/loop/stop_signal.h ends the process of a stopped run after 1.5 s. The page is then finished without it.
constexpr std::chrono::milliseconds kLongestReportWhenStopped{700};

/// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Returns the first line of what was written to the descriptor's file.
std::string first_report_line(int descriptor) {
  std::string text(4096, '\0');
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  constexpr std::string_view kProgram = "trainctl: ";
  if (text.starts_with(kProgram)) text.erase(0, kProgram.size());
  return text.substr(0, text.find('\n'));
}

/// Starts `trainctl report RUN` at the run's end. Never throws: a run that has finished has finished.
class ReportProcess final : public Sink {
 public:
  explicit ReportProcess(std::filesystem::path run_directory) : run_directory_(std::move(run_directory)) {}

  void on(const Event& event) override {
    const auto* finished = std::get_if<RunFinished>(&event);
    if (finished == nullptr) return;
    try {
      write(finished->outcome == Outcome::stopped ? kLongestReportWhenStopped : kLongestReport);
    } catch (const std::exception& error) {
      warn(core::as_error(error).what());
    }
  }

 private:
  void write(std::chrono::milliseconds limit) const {
    const std::string program = own_program();
    const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Descriptor output(::memfd_create("report", MFD_CLOEXEC));
    if (input.get() < 0 || output.get() < 0) throw core::system_error("make", "a file in memory");
    const pid_t process = spawn_child(program, {program, "report", std::filesystem::absolute(run_directory_).string()},
                                      input.get(), output.get());
    int status = 0;
    for (const auto begin = steady_clock::now(); ::waitpid(process, &status, WNOHANG) == 0;) {
      if (steady_clock::now() - begin >= limit) return;
      std::this_thread::sleep_for(kReportPollInterval);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    const std::string line = first_report_line(output.get());
    warn(line.empty() ? "the process ended early" : line);
  }

  void warn(const std::string& cause) const {
    core::log().warning("the page about the run is not written: " + cause + "; `trainctl report " +
                        run_directory_.string() + "` writes it");
  }

  std::filesystem::path run_directory_;
};

}  // namespace

std::unique_ptr<Sink> make_report_process(const std::filesystem::path& run_directory) {
  return std::make_unique<ReportProcess>(run_directory);
}

}  // namespace trainctl::tracking
