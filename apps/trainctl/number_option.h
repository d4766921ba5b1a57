// Options whose value is a number that may have a fraction.
#pragma once

#include <cmath>
#include <string>

#include "command.h"
#include "core/text.h"

namespace trainctl::cli {

/// Returns a check for a finite number from `least` to `most`. CLI11's own checks let nan pass, since no comparison
/// with nan is true.
inline CLI::Validator finite_number(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        double value = NAN;
        if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return "";
        return "got " + text + "; expected a number from " + core::format_digits(least, 6) + " to " +
               core::format_digits(most, 6);
      },
      "");
}

}  // namespace trainctl::cli
