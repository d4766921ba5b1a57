#include "train/run/stored_logits.h"

#include <ATen/ops/from_blob.h>

#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/text.h"

namespace trainctl::train {
namespace {

constexpr const char* kLogits = "logits";
constexpr const char* kFingerprint = "data_fingerprint";  // its letters, uint8
constexpr const char* kClasses = "class_names";           // a JSON array's letters; the fingerprint knows no order

at::Tensor letters(const std::string& text) {
  return at::from_blob(const_cast<char*>(text.data()), {std::ssize(text)}, at::kByte).clone();
}

at::Tensor classes_of(const dataset::Datasets& data) {
  return letters(nlohmann::json(data.train->spec().class_names).dump());
}

}  // namespace

void write_logits(const std::filesystem::path& path, const at::Tensor& logits, const dataset::Datasets& data) {
  checkpoint::write_safetensors(
      path, {{kLogits, logits}, {kFingerprint, letters(data.fingerprint)}, {kClasses, classes_of(data)}}, {},
      core::Durability::disk);
}

at::Tensor read_logits(const std::filesystem::path& path, const dataset::Datasets& data) {
  const checkpoint::TensorMap tensors = checkpoint::read_safetensors(path);
  const std::string how = "'trainctl eval RUN --split train --logits " + path.string() + "' writes it";
  const auto logits = tensors.find(kLogits);
  const auto fingerprint = tensors.find(kFingerprint);
  const auto classes = tensors.find(kClasses);
  if (logits == tensors.end() || fingerprint == tensors.end() || classes == tensors.end())
    throw core::Error(path.string() + " has no `logits` with `data_fingerprint` and `class_names`").hint(how);
  const dataset::SampleSpec& spec = data.train->spec();
  if (logits->second.dim() != 2 || logits->second.size(1) != spec.num_classes)
    throw core::Error(path.string() + " has logits of " + core::format_count(logits->second.size(-1)) +
                      " classes, and the dataset has " + core::format_count(spec.num_classes));
  if (!fingerprint->second.equal(letters(data.fingerprint)))
    throw core::Error(path.string() + " has logits of other training data than the dataset's").hint(how);
  if (!classes->second.equal(classes_of(data)))
    throw core::Error(path.string() +
                      " has logits of classes with other names, or in another order, than the dataset's")
        .hint(how);
  return logits->second.to(at::kFloat);
}

}  // namespace trainctl::train
