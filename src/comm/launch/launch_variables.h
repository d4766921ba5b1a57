// Environment variables of launchers, read with errors that name them.
#pragma once

#include <string>

#include "comm/launch/launch.h"

namespace trainctl::comm {

/// Which variables hold a rank; "" for those that the launcher doesn't set.
struct RankVariables {
  std::string launcher;
  std::string rank;
  std::string world_size;
  std::string local_rank;
  std::string local_world_size;
};

class LaunchVariables {
 public:
  explicit LaunchVariables(const Environment& environment) : environment_(environment) {}

  /// Empty counts as not set.
  std::optional<std::string> get(const std::string& name) const;
  bool has(const std::string& name) const { return get(name).has_value(); }
  std::string text_or(const std::string& name, const std::string& otherwise) const;
  std::int64_t number_or(const std::string& name, std::int64_t otherwise) const;
  /// Errors where it isn't set, or is no number from 0.
  std::string text(const std::string& name, const std::string& launcher) const;
  std::int64_t number(const std::string& name, const std::string& launcher) const;
  std::int64_t port(const std::string& name, const std::string& launcher) const;

  /// Complete and within their limits.
  Launch ranks(const RankVariables& names) const;
  /// RANK and WORLD_SIZE, where somebody set them too, say the same.
  void expect_no_other_rank(const Launch& launch, const std::string& rank, const std::string& world_size) const;

 private:
  const Environment& environment_;
};

}  // namespace trainctl::comm
