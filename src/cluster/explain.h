// Every predicted number with the terms that it is made of.
#pragma once

#include <string>
#include <vector>

#include "cluster/search.h"

namespace trainctl::cluster {

struct Term {
  std::string section;  // what the term is a part of
  std::string name;
  double value = 0;
  std::string unit;     // s, B, 1, FLOP/s, B/s, parameters
  std::string formula;  // in words
  std::string source;   // of its constants
};

/// Returns the terms of a step's time and memory, in the order in which they add up.
std::vector<Term> explain(const Setup& setup, const Candidate& candidate);

/// Returns a table for a terminal.
std::string format_terms(const std::vector<Term>& terms);

}  // namespace trainctl::cluster
