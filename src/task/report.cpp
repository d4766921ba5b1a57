#include "task/report.h"

namespace trainctl::task {

std::vector<std::int64_t> host_counts(const at::Tensor& counts) {
  const at::Tensor host = counts.cpu().contiguous();
  const auto* values = host.const_data_ptr<std::int64_t>();
  return {values, values + host.numel()};
}

void add_per_class(nlohmann::ordered_json& document, const ClassCounts& counts, const std::vector<std::string>& names) {
  if (!names.empty()) document["class_names"] = names;
  auto accuracy = nlohmann::ordered_json::array();
  auto f1 = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < counts.hits.size(); ++i) {
    if (counts.labeled[i] == 0) {
      accuracy.push_back(nullptr);
      f1.push_back(nullptr);
      continue;
    }
    accuracy.push_back(static_cast<double>(counts.hits[i]) / static_cast<double>(counts.labeled[i]));
    f1.push_back(f1_of(counts, i));
  }
  document["per_class_accuracy"] = std::move(accuracy);
  document["per_class_f1"] = std::move(f1);
}

}  // namespace trainctl::task
