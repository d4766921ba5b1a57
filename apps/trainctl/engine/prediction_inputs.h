// What is to be predicted: files, or standard input, as inputs for the model, one after another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpointed_run.h"
#include "inference/predict.h"

namespace trainctl::engine {

/// An input and what it is called in the output: {"input": "cat.png"}, {"input": "texts.txt", "line": 3}.
struct NamedInput {
  std::string name;
  std::optional<std::int64_t> line{};
  std::optional<inference::PredictionInput> content{};
  std::string error{};  // where there is no content
};

/// Returns the options of tokenizing for this dataset and task.
tokenizer::EncodeOptions encoding_of(const dataset::DatasetConfig& dataset, const task::TaskConfig& task);

using InputUse = std::function<void(NamedInput)>;

/// A file that can't be read at all is one input with an error. `tokenizer`: of a network for texts, else null.
void read_inputs(const CheckpointedRun& loaded, const std::vector<std::string>& files,
                 const tokenizer::Tokenizer* tokenizer, const InputUse& use);

}  // namespace trainctl::engine
