// What follows from how many samples of each class there are, were predicted, and were predicted right.
#pragma once

#include <cstdint>
#include <vector>

namespace trainctl::task {

/// Equally long, one entry a class.
struct ClassCounts {
  std::vector<std::int64_t> labeled;    // samples of the class
  std::vector<std::int64_t> predicted;  // samples taken for the class
  std::vector<std::int64_t> hits;       // of the class and taken for it
};

/// Harmonic mean of precision and recall; 0 where the class neither occurs nor was predicted.
double f1_of(const ClassCounts& counts, std::size_t class_index);

/// Share of the samples taken for the class that are of it; 0 if none was.
double precision_of(const ClassCounts& counts, std::size_t class_index);
/// Share of the class's samples that were taken for it; 0 if there are none.
double recall_of(const ClassCounts& counts, std::size_t class_index);

/// The mean over the classes that occur or were predicted (as scikit-learn's f1_score with average="macro").
double macro_f1(const ClassCounts& counts);
double macro_precision(const ClassCounts& counts);
double macro_recall(const ClassCounts& counts);
/// The mean weighted by the classes' samples.
double weighted_f1(const ClassCounts& counts);
/// The mean recall over the classes that occur.
double balanced_accuracy(const ClassCounts& counts);

/// https://doi.org/10.1016/j.compbiolchem.2004.09.006; with two classes, Matthews' coefficient. 0 where it isn't
/// defined.
double matthews(const ClassCounts& counts);

}  // namespace trainctl::task
