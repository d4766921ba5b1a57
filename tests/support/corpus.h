// Files of conformance corpora, each with the value that a reference library reads: tests/reference/corpora.py.
#pragma once

#include <catch2/catch.hpp>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/file.h"
#include "support/python.h"

namespace trainctl::testing {

/// Reads every file of a part of tests/reference/corpora.py by `read`, which takes the file's bytes and path. `read`
/// returns the value as the script writes it, or throws what the program refuses the file with. The value must be the
/// reference's; a file that the reference refuses must be refused, and an ordinary one must be read. The program may
/// refuse other files; their reasons are counted and printed.
template <class Read>
void compare_corpus(const std::string& part, const Read& read) {
  struct Counts {
    int equal = 0;
    int refused_by_both = 0;
    int refused_by_us = 0;
  };
  const TemporaryDirectory directory;
  run_reference("corpora.py", {part, directory.path().string()});
  std::map<std::string, Counts> corpora;
  std::string reasons;
  for (const auto& one : nlohmann::json::parse(core::read_file(directory / "cases.json"))) {
    const auto path = one.at("path").template get<std::string>();
    Counts& counts = corpora[one.at("corpus").template get<std::string>()];
    INFO(path);
    nlohmann::json got;
    std::string refusal;
    try {
      got = read(core::read_file(path), path);
    } catch (const std::exception& error) {
      refusal = error.what();
      REQUIRE_FALSE(refusal.empty());
    }
    if (!one.contains("value")) {
      CHECK_FALSE(refusal.empty());
      ++counts.refused_by_both;
    } else if (refusal.empty()) {
      CHECK(got == one.at("value"));
      ++counts.equal;
    } else {
      ++counts.refused_by_us;
      reasons += "\n  " + refusal.substr(0, 200);
      INFO(refusal);
      CHECK_FALSE(one.at("ordinary").template get<bool>());
    }
  }
  REQUIRE_FALSE(corpora.empty());
  std::string table;
  for (const auto& [name, counts] : corpora)
    table += "\n" + name + ": " + std::to_string(counts.equal) + " equal, " + std::to_string(counts.refused_by_both) +
             " refused by both, " + std::to_string(counts.refused_by_us) + " refused here alone";
  WARN(table << reasons);
}

}  // namespace trainctl::testing
