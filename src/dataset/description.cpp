#include "dataset/description.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "dataset/table/table_encoding.h"

namespace trainctl::dataset {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<Targets, const char*> kTargets[] = {{Targets::labels, "labels"},
                                                        {Targets::label_sets, "label_sets"},
                                                        {Targets::class_masks, "class_masks"},
                                                        {Targets::values, "values"},
                                                        {Targets::token_labels, "token_labels"},
                                                        {Targets::next_tokens, "next_tokens"},
                                                        {Targets::masked_tokens, "masked_tokens"},
                                                        {Targets::target_tokens, "target_tokens"},
                                                        {Targets::preferences, "preferences"}};

const char* name_of(Targets targets) {
  for (const auto& [value, name] : kTargets)
    if (value == targets) return name;
  throw std::logic_error("targets without a name");
}

Targets targets_of_name(const std::string& name) {
  for (const auto& [value, known] : kTargets)
    if (name == known) return value;
  throw core::Error("the checkpoint's description of its data has unknown targets, got '" + name + "'");
}

SampleSpec spec_of(const std::string& description) {
  try {
    const Json json = core::parse_json<Json>(description, "the checkpoint's description of its data");
    SampleSpec spec;
    spec.input_shape = json.at("input_shape").get<std::vector<std::int64_t>>();
    spec.input_dtype = json.at("has_tokens").get<bool>() ? at::kLong : at::kFloat;
    spec.num_classes = json.at("num_classes").get<std::int64_t>();
    spec.vocab_size = json.at("vocab_size").get<std::int64_t>();
    spec.target_length = json.value("target_length", std::int64_t{0});  // which older checkpoints lack
    spec.targets = targets_of_name(json.at("targets").get<std::string>());
    spec.class_names = json.at("class_names").get<std::vector<std::string>>();
    spec.class_counts = json.at("class_counts").get<std::vector<std::int64_t>>();
    if (const auto bytes_per_token = json.at("bytes_per_token").get<double>(); bytes_per_token > 0)
      spec.bytes_per_token = std::async(std::launch::deferred, [=] { return bytes_per_token; }).share();
    if (const auto labels = json.find("labels"); labels != json.end())
      spec.labels = {.mean = labels->at("mean").get<double>(), .deviation = labels->at("deviation").get<double>()};
    if (const auto columns = json.find("columns"); columns != json.end())
      spec.table = std::make_shared<const TableEncoding>(encoding_of_text(columns->dump()));
    return spec;
  } catch (const nlohmann::json::exception& error) {
    throw core::Error("the checkpoint's description of its data can't be read: " + std::string(error.what()));
  }
}

class DescribedLoader final : public Loader {
 public:
  explicit DescribedLoader(SampleSpec spec) : spec_(std::move(spec)) {}

  std::optional<Batch> next() override {
    throw core::Error("this command opened no samples: the checkpoint only describes them");
  }
  void seek(Position position) override { position_ = position; }
  Position position() const override { return position_; }
  std::int64_t num_samples() const override { return 1; }
  std::int64_t batches_per_epoch() const override { return 1; }
  const SampleSpec& spec() const override { return spec_; }
  double last_wait_ms() const override { return 0; }
  LoaderStats take_stats() override { return {}; }

 private:
  SampleSpec spec_;
  Position position_;
};

}  // namespace

std::string description_of(const SampleSpec& spec) {
  Json json = {{"input_shape", spec.input_shape},   {"has_tokens", spec.input_dtype == at::kLong},
               {"num_classes", spec.num_classes},   {"vocab_size", spec.vocab_size},
               {"targets", name_of(spec.targets)},  {"class_names", spec.class_names},
               {"class_counts", spec.class_counts}, {"bytes_per_token", 0.0}};
  if (spec.bytes_per_token.valid()) json["bytes_per_token"] = spec.bytes_per_token.get();
  if (spec.target_length > 0) json["target_length"] = spec.target_length;
  if (spec.labels != kAsTheyAre) json["labels"] = {{"mean", spec.labels.mean}, {"deviation", spec.labels.deviation}};
  if (spec.table != nullptr) json["columns"] = Json::parse(text_of_encoding(*spec.table));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Datasets described_datasets(const std::string& description, const std::string& fingerprint) {
  Datasets data;
  data.train = std::make_unique<DescribedLoader>(spec_of(description));
  data.fingerprint = fingerprint;
  return data;
}

std::string changed_meaning(const SampleSpec& trained, const SampleSpec& now) {
  if (!trained.class_names.empty() && !now.class_names.empty() && trained.class_names != now.class_names)
    return "the classes were " + core::list_words(trained.class_names) + " in training, and the data's are " +
           core::list_words(now.class_names);
  if ((trained.labels == kAsTheyAre) != (now.labels == kAsTheyAre))
    return std::string("the labels were ") + (trained.labels == kAsTheyAre ? "not " : "") +
           "scaled in training (label_scaling), and are " + (now.labels == kAsTheyAre ? "not" : "now");
  if (trained.table == nullptr || now.table == nullptr) return "";
  const auto meaning = [](const ColumnEncoding& column) {
    const bool is_scaled = column.mean != 0 || column.scale != 1;
    return std::make_tuple(std::cref(column.name), column.kind, std::cref(column.categories), column.has_other,
                           column.has_time, column.bin_edges.empty(), is_scaled);
  };
  const std::vector<ColumnEncoding>& before = trained.table->columns;
  const std::vector<ColumnEncoding>& columns = now.table->columns;
  for (std::size_t i = 0; i < std::max(before.size(), columns.size()); ++i)
    if (i >= before.size() || i >= columns.size() || meaning(before[i]) != meaning(columns[i]))
      return "column '" + (i < before.size() ? before[i] : columns[i]).name + "' becomes other inputs than in training";
  return "";
}

}  // namespace trainctl::dataset
