#include "task/class_counts.h"

#include <cmath>

namespace trainctl::task {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double mean_over_classes(const ClassCounts& counts, double (*measure)(const ClassCounts&, std::size_t)) {
  double sum = 0;
  int num_classes = 0;
  for (std::size_t i = 0; i < counts.hits.size(); ++i) {
    if (counts.labeled[i] + counts.predicted[i] == 0) continue;
    sum += measure(counts, i);
    ++num_classes;
  }
  return num_classes == 0 ? 0 : sum / num_classes;
}

}  // namespace

double f1_of(const ClassCounts& counts, std::size_t class_index) {
  const std::int64_t sum = counts.labeled[class_index] + counts.predicted[class_index];
  return sum == 0 ? 0 : 2 * static_cast<double>(counts.hits[class_index]) / static_cast<double>(sum);
}

double precision_of(const ClassCounts& counts, std::size_t class_index) {
  return share(counts.hits[class_index], counts.predicted[class_index]);
}

double recall_of(const ClassCounts& counts, std::size_t class_index) {
  return share(counts.hits[class_index], counts.labeled[class_index]);
}

double macro_f1(const ClassCounts& counts) {
  return mean_over_classes(counts, f1_of);
}

double macro_precision(const ClassCounts& counts) {
  return mean_over_classes(counts, precision_of);
}

double macro_recall(const ClassCounts& counts) {
  return mean_over_classes(counts, recall_of);
}

double weighted_f1(const ClassCounts& counts) {
  double sum = 0;
  std::int64_t samples = 0;
  for (std::size_t i = 0; i < counts.hits.size(); ++i) {
    sum += static_cast<double>(counts.labeled[i]) * f1_of(counts, i);
    samples += counts.labeled[i];
  }
  return samples == 0 ? 0 : sum / static_cast<double>(samples);
}

double balanced_accuracy(const ClassCounts& counts) {
  double sum = 0;
  int num_classes = 0;
  for (std::size_t i = 0; i < counts.hits.size(); ++i) {
    if (counts.labeled[i] == 0) continue;
    sum += recall_of(counts, i);
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
