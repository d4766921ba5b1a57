// Collects every mistake with its place, so that all are reported at once and in the file's order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "core/error.h"

namespace trainctl::config {

class Problems {
 public:
  static constexpr std::size_t kMaxProblems = 200;

  void add(const Origin& origin, std::string path, std::string message);

  bool empty() const { return found_.empty(); }
  /// No more are kept: a file with so many mistakes isn't an experiment.
  bool full() const { return found_.size() >= kMaxProblems; }
  /// Whether a problem was found at `path`, in what encloses it, or inside it.
  bool touches(std::string_view path) const;
  /// Files in the order in which they were first named here, each by line and column, then the command line.
  std::vector<core::Problem> sorted() const;
  /// Throws ConfigError if there is any problem.
  void throw_if_any() const;

 private:
  struct Found {
    Origin origin;
    std::string path;
    std::string message;
  };
  std::vector<Found> found_;
  std::size_t num_dropped_ = 0;
};

/// "a.b" from "a" and "b".
std::string join_path(std::string_view path, std::string_view key);
/// "a[2]".
std::string join_path(std::string_view path, std::size_t index);

}  // namespace trainctl::config
