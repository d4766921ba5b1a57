// What may stand at the cursor of a command line, for the shells' completion.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "command.h"

namespace trainctl::cli {

struct Candidate {
  std::string text;
  std::string help;
};

/// Files that the shell lists beside the candidates.
enum class Paths { none, directories, experiments, files };

struct Completion {
  std::vector<Candidate> candidates;
  Paths paths = Paths::none;
};

/// `words` follow the program's name and end with the word at the cursor, which may be empty.
Completion complete(const CLI::App& program, std::span<const std::string> words);

/// Prints a candidate per line, with its help after a tab. The last line is ":none", ":directories", ":experiments" or
/// ":files".
void print_completion(const Completion& completion);

}  // namespace trainctl::cli
