// What to type in place of an option that a command doesn't have.
#pragma once

#include <CLI/App.hpp>
#include <span>
#include <string>

namespace trainctl::cli {

/// A word of the command line that is no option of the command.
struct UnknownOption {
  std::string problem;  // "train has no option --epochs"
  std::string advice;   // "--set train.epochs=3"; empty: no key has that name
};

/// Finds the first option of `words` that the command doesn't have, and the key of the experiment with its name. Empty
/// if the command has all of them.
UnknownOption find_unknown_option(const CLI::App& command, std::span<const std::string> words);

}  // namespace trainctl::cli
