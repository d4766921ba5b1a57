// Text as data for tests: a small vocabulary, sentences of it, and batches to compare.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "support/small_files.h"

namespace trainctl::testing {

/// A vocabulary for WordPiece: roles, then words and pieces.
inline std::string vocabulary() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const char* word : {"the", "cat", "dog", "sat", "run", "##ning", "##s", "on", "mat", ".", "a", "good"})
    text += std::string(word) + "\n";
  return text;
}

inline std::string sentences(int count) {
  const char* words[] = {"the", "cats", "dog", "sat", "running", "on", "mats", "a", "good"};
  runtime::Random random(5);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::int64_t length = 2 + random.below(14);
    for (std::int64_t w = 0; w < length; ++w) text += std::string(w == 0 ? "" : " ") + words[random.below(9)];
    text += " .\n";
  }
  return text;
}

inline std::vector<std::int64_t> values_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  return {whole.const_data_ptr<std::int64_t>(), whole.const_data_ptr<std::int64_t>() + whole.numel()};
}

/// Every tensor of a batch that is defined.
inline std::vector<at::Tensor> tensors_of(const dataset::Batch& batch) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : {batch.inputs, batch.targets, batch.token_types, batch.key_mask, batch.documents,
                                   batch.target_positions, batch.decoder_inputs})
    if (tensor.defined()) all.push_back(tensor.clone());
  return all;
}

inline std::vector<std::vector<at::Tensor>> take(dataset::Loader& loader, int batches) {
  std::vector<std::vector<at::Tensor>> all;
  while (static_cast<int>(all.size()) < batches)
    if (std::optional<dataset::Batch> batch = loader.next()) all.push_back(tensors_of(*batch));
  return all;
}

inline bool equal(const std::vector<std::vector<at::Tensor>>& a, const std::vector<std::vector<at::Tensor>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const at::Tensor& s, const at::Tensor& t) { return s.equal(t); });
  });
}

/// Workers don't matter, and a loader that is sought to the middle goes on as one that went there.
inline void check_repeatable(const dataset::DatasetConfig& config) {
  const auto open = [&](std::int64_t workers) {
    dataset::DatasetConfig with = config;
    with.num_workers = workers;
    dataset::LoaderOptions options;
    options.seed = 3;
    return std::move(dataset::build(with, options).train);
  };
  const auto reference = open(0);
  const auto expected = take(*reference, 12);
  for (const std::int64_t workers : {1, 3}) CHECK(equal(take(*open(workers), 12), expected));
  const auto first = open(0);
  take(*first, 5);
  const auto resumed = open(3);
  resumed->seek(first->position());
  CHECK(equal(take(*resumed, 7), {expected.begin() + 5, expected.end()}));
}

}  // namespace trainctl::testing
