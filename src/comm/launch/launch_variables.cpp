#include "comm/launch/launch_variables.h"

#include <charconv>

#include "core/error.h"

namespace trainctl::comm {
namespace {

std::int64_t parse(const std::string& name, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw core::Error("the environment variable " + name + " is '" + text + "'; expected a number from 0")
        .hint("the launcher sets it; unset it to train in one process");
  return value;
}

void expect_below(const std::string& name, std::int64_t value, const std::string& limit_name, std::int64_t limit) {
  if (value < limit) return;
  throw core::Error(name + " is " + std::to_string(value) + ", but " + limit_name + " is " + std::to_string(limit))
      .hint("ranks count from 0; check what sets these variables");
}

}  // namespace

std::optional<std::string> LaunchVariables::get(const std::string& name) const {
  std::optional<std::string> value = environment_(name);
  return value && value->empty() ? std::nullopt : value;
}

std::string LaunchVariables::text_or(const std::string& name, const std::string& otherwise) const {
  return get(name).value_or(otherwise);
}

std::int64_t LaunchVariables::number_or(const std::string& name, std::int64_t otherwise) const {
  const std::optional<std::string> value = get(name);
  return value ? parse(name, *value) : otherwise;
}

std::string LaunchVariables::text(const std::string& name, const std::string& launcher) const {
  const std::optional<std::string> value = get(name);
  if (!value)
    throw core::Error("the environment is that of " + launcher + ", but " + name + " is not set")
        .hint(
            "start all processes with one launcher, which sets it; or unset its other variables to train in one "
            "process");
  return *value;
}

std::int64_t LaunchVariables::number(const std::string& name, const std::string& launcher) const {
  return parse(name, text(name, launcher));
}

std::int64_t LaunchVariables::port(const std::string& name, const std::string& launcher) const {
  const std::int64_t value = number(name, launcher);
  if (value < 1 || value > 65'535)
    throw core::Error(name + " is " + std::to_string(value) + "; expected a port from 1 to 65535")
        .hint("choose one that is free on rank 0's host");
  return value;
}

Launch LaunchVariables::ranks(const RankVariables& names) const {
  Launch launch;
  launch.launcher = names.launcher;
  launch.rank = number(names.rank, names.launcher);
  launch.world_size = number(names.world_size, names.launcher);
  constexpr std::int64_t kMaxRanks = 100'000;
  if (launch.world_size > kMaxRanks)
    throw core::Error(names.world_size + " is " + std::to_string(launch.world_size) + ", but a job has at most " +
                      std::to_string(kMaxRanks) + " ranks")
        .hint("check what sets this variable");
  expect_below(names.rank, launch.rank, names.world_size, launch.world_size);
  if (!names.local_rank.empty()) launch.local_rank = number(names.local_rank, names.launcher);
  if (names.local_world_size.empty()) return launch;
  launch.local_world_size = number(names.local_world_size, names.launcher);
  expect_below(names.local_rank, launch.local_rank, names.local_world_size, launch.local_world_size);
  expect_below(names.local_world_size, launch.local_world_size, names.world_size + " + 1", launch.world_size + 1);
  return launch;
}

void LaunchVariables::expect_no_other_rank(const Launch& launch, const std::string& rank,
                                           const std::string& world_size) const {
  const auto expect = [&](const std::string& theirs, const std::string& ours, std::int64_t value) {
    const std::optional<std::string> text = get(theirs);
    if (!text || parse(theirs, *text) == value) return;
    throw core::Error(theirs + " is " + *text + ", but " + launch.launcher + " says " + std::to_string(value) + " (" +
                      ours + ")")
        .hint("unset " + theirs + ", or start the processes with torchrun instead");
  };
  expect("RANK", rank, launch.rank);
  expect("WORLD_SIZE", world_size, launch.world_size);
}

}  // namespace trainctl::comm
