// The program's log lines, written by spdlog. Standard error is the log's place. A rank that writes to its own file has
// its standard error there, with the lines of the libraries.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace trainctl::core {

enum class Severity { info, warning, error };

/// What happens to a line that cannot be written.
enum class OnWriteFailure { drop, raise };

/// Lines on a file descriptor, which stays the caller's. Any thread may write: a line is one write of whole text.
class Log {
 public:
  struct Options {
    int descriptor;
    Severity least = Severity::info;  // less severe lines are left out
    OnWriteFailure on_failure = OnWriteFailure::raise;
  };
  explicit Log(const Options& options);
  ~Log();
  /// Writes the line, after "warning: " if it is one. The text has no line's end.
  void write(Severity severity, std::string_view line);
  void info(std::string_view line) { write(Severity::info, line); }
  void warning(std::string_view line) { write(Severity::warning, line); }

 private:
  class Logger;
  std::unique_ptr<Logger> logger_;
};

/// Returns the process's log on standard error, which drops lines that cannot be written.
Log& log();

}  // namespace trainctl::core
