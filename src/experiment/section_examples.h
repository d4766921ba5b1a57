// The examples of docs/reference.md.
#pragma once

#include "config/reference.h"

namespace trainctl::experiment {

/// Returns an example for each section of the experiment file that is a mapping, and the file that they lie over.
config::SectionExamples section_examples();

}  // namespace trainctl::experiment
