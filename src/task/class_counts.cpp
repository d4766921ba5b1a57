#include "task/class_counts.h"

#include <cmath>

namespace trainctl::task {

double f1_of(const ClassCounts& counts, std::size_t class_index) {
  const std::int64_t sum = counts.labeled[class_index] + counts.predicted[class_index];
  return sum == 0 ? 0 : 2 * static_cast<double>(counts.hits[class_index]) / static_cast<double>(sum);
}

double macro_f1(const ClassCounts& counts) {
  double sum = 0;
  int num_classes = 0;
  for (std::size_t i = 0; i < counts.hits.size(); ++i) {
    if (counts.labeled[i] + counts.predicted[i] == 0) continue;
    sum += f1_of(counts, i);
    ++num_classes;
  }
  return num_classes == 0 ? 0 : sum / num_classes;
}

double matthews(const ClassCounts& counts) {
  double samples = 0;
  double hits = 0;
  double products = 0;
  double labeled_squares = 0;
  double predicted_squares = 0;
  for (std::size_t i = 0; i < counts.hits.size(); ++i) {
    const auto labeled = static_cast<double>(counts.labeled[i]);
    const auto predicted = static_cast<double>(counts.predicted[i]);
    samples += labeled;
    hits += static_cast<double>(counts.hits[i]);
    products += labeled * predicted;
    labeled_squares += labeled * labeled;
    predicted_squares += predicted * predicted;
  }
  const double spread =
      std::sqrt(samples * samples - predicted_squares) * std::sqrt(samples * samples - labeled_squares);
  return spread > 0 ? (hits * samples - products) / spread : 0;
}

}  // namespace trainctl::task
