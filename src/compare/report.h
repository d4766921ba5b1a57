// An ablation for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "compare/ablation.h"

namespace trainctl::compare {

struct AblationReport {
  std::string experiment;  // its name
  std::string machine;     // "cpu, 2 threads"
  std::int64_t num_steps = 0;
  std::int64_t num_rounds = 0;
  std::vector<Strategy> strategies;
  std::vector<VariantResult> results;  // the first is the baseline
  std::vector<VariantFigures> figures;
  std::size_t recommended = 0;
};

/// A table, what each strategy is worth in the company of the others, and the recommended lines.
std::string format_table(const AblationReport& report);
std::string format_json(const AblationReport& report);
/// One page that needs nothing beside it.
std::string format_html(const AblationReport& report);

}  // namespace trainctl::compare
