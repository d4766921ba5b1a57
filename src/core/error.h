// Three kinds of failure: a wrong config (ConfigError, exit 2), a world that does not play along (Error, exit 1),
// and a bug of ours (ensure, abort). Errors are caught once, in main.
#pragma once

#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::core {

/// Process exit codes; a run stopped by a signal exits with 128 + the signal's number.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

/// The world failed us: what went wrong while doing what, and what to try.
/// `Error("cannot open train.bin: No such file").hint("'trainctl data prepare' writes it").during("building
/// dataset.train")`
class Error : public std::runtime_error {
 public:
  explicit Error(std::string what) : std::runtime_error(what), message_(std::move(what)) {}

  Error& hint(std::string text) & {
    hint_ = std::move(text);
    return *this;
  }
  Error&& hint(std::string text) && {
    hint_ = std::move(text);
    return std::move(*this);
  }
  /// Adds what was being done, outermost last.
  Error& during(std::string_view activity) & {
    message_ += " while " + std::string(activity);
    return *this;
  }
  Error&& during(std::string_view activity) && {
    message_ += " while " + std::string(activity);
    return std::move(*this);
  }

  bool has_hint() const { return !hint_.empty(); }
  /// One or two lines for a person: the message, then the hint.
  std::string text() const { return hint_.empty() ? message_ : message_ + "\n  try: " + hint_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
  std::string hint_;
};

/// One mistake in an experiment file.
struct Problem {
  std::string where;    // "exp.yaml:12:7", or "--set optimizer.lr"
  std::string path;     // "optimizer.lr"; empty for the file as a whole
  std::string message;  // what is wrong, what was expected, what was probably meant

  /// `exp.yaml:12:7: optimizer.lr: expected a positive number, got -1`
  std::string text() const { return where + ": " + (path.empty() ? "" : path + ": ") + message; }
};

/// Every mistake of an experiment at once.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Problem> problems);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// Returns any exception as an Error for the user. An Error stays as it is. Other exceptions become one line, without
/// the names and stacks of library functions, and with a hint if one is known.
Error as_error(const std::exception& error);

/// Returns the exception that is being handled, as `change` makes it of as_error(); unchanged if there is no memory for
/// that. For threads, which must not end by an exception.
template <class Change>
std::exception_ptr current_error(const Change& change) noexcept {
  const std::exception_ptr unchanged = std::current_exception();
  try {
    std::rethrow_exception(unchanged);
  } catch (const std::exception& error) {
    try {
      return std::make_exception_ptr(change(as_error(error)));
    } catch (...) {
      return unchanged;
    }
  } catch (...) {
    return unchanged;
  }
}

/// An Error from errno: `cannot open a.gz: No such file or directory`.
Error system_error(std::string_view action, std::string_view path);

/// States what must hold if the program is right; aborts with file:line if not. Never for user input.
void ensure(bool condition, std::string_view message, std::source_location where = std::source_location::current());

}  // namespace trainctl::core
