// What is to be predicted: files, or standard input, as inputs for the model, one after another.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
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
  std::string error{};       // where there is no content
  bool is_unopened = false;  // the error is that the file can't be opened
};

/// Returns the options of tokenizing for this dataset and task.
tokenizer::EncodeOptions encoding_of(const dataset::DatasetConfig& dataset, const task::TaskConfig& task);

using InputUse = std::function<void(NamedInput)>;

/// A file with inputs. Standard input, "-", may have been read while the files were listed.
struct InputFile {
  std::string name;
  std::optional<std::string> content{};
};

/// Lists the files that the user names, or standard input if there is none. The image paths on standard input stand for
/// it. `tokenizer`: of a network for texts, else null. Throws core::Error if standard input can't be read.
std::vector<InputFile> list_inputs(const CheckpointedRun& loaded, const std::vector<std::string>& patterns,
                                   const tokenizer::Tokenizer* tokenizer);

/// Returns the canonical paths of files with inputs. No result may be written to any of them.
std::set<std::filesystem::path> paths_of(const std::vector<InputFile>& files);

/// Reads the inputs of listed files. A file that can't be read at all is one input with an error.
void read_inputs(const CheckpointedRun& loaded, const std::vector<InputFile>& files,
                 const tokenizer::Tokenizer* tokenizer, const InputUse& use);

}  // namespace trainctl::engine
