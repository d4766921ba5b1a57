#include "train/run/stored_logits.h"

#include <ATen/ops/from_blob.h>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/text.h"

namespace trainctl::train {
namespace {

constexpr const char* kLogits = "logits";
constexpr const char* kFingerprint = "data_fingerprint";  // its letters, uint8

at::Tensor letters(const std::string& text) {
  return at::from_blob(const_cast<char*>(text.data()), {std::ssize(text)}, at::kByte).clone();
}

}  // namespace

void write_logits(const std::filesystem::path& path, const at::Tensor& logits, const std::string& fingerprint) {
  checkpoint::write_safetensors(path, {{kLogits, logits}, {kFingerprint, letters(fingerprint)}}, {},
                                core::Durability::disk);
}

at::Tensor read_logits(const std::filesystem::path& path, const dataset::Datasets& data) {
  const checkpoint::TensorMap tensors = checkpoint::read_safetensors(path);
  const std::string how = "'trainctl eval RUN --split train --logits " + path.string() + "' writes it";
  const auto logits = tensors.find(kLogits);
  const auto fingerprint = tensors.find(kFingerprint);
  if (logits == tensors.end() || fingerprint == tensors.end())
    throw core::Error(path.string() + " has no `logits` with a `data_fingerprint`").hint(how);
  const dataset::SampleSpec& spec = data.train->spec();
  if (logits->second.dim() != 2 || logits->second.size(1) != spec.num_classes)
    throw core::Error(path.string() + " has logits of " + core::format_count(logits->second.size(-1)) +
                      " classes, and the dataset has " + core::format_count(spec.num_classes));
  if (!fingerprint->second.equal(letters(data.fingerprint)))
    throw core::Error(path.string() + " has logits of other training data than the dataset's").hint(how);
  return logits->second.to(at::kFloat);
}

}  // namespace trainctl::train
