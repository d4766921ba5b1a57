#include "pretrained/tokenizer_files.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::pretrained {
namespace {

namespace fs = std::filesystem;

/// The file names of tokenizers, each with its name in an export.
constexpr std::array<std::pair<const char*, const char*>, 11> kTokenizerFiles = {{
    {"tokenizer.json", "tokenizer.json"},
    {"tokenizer_config.json", "tokenizer_config.json"},
    {"special_tokens_map.json", "special_tokens_map.json"},
    {"added_tokens.json", "added_tokens.json"},
    {"vocab.txt", "vocab.txt"},
    {"vocab.json", "vocab.json"},
    {"merges.txt", "merges.txt"},
    {"encoder.json", "vocab.json"},
    {"vocab.bpe", "merges.txt"},
    {"tokenizer.model", "tokenizer.model"},
    {"spiece.model", "spiece.model"},
}};

}  // namespace

std::vector<fs::path> copy_tokenizer(const fs::path& tokenizer, const fs::path& directory) {
  const fs::path from = fs::is_directory(tokenizer) ? tokenizer : tokenizer.parent_path();
  std::vector<fs::path> files;
  const auto copy = [&](const fs::path& source, const fs::path& target) {
    core::write_file_atomically(target, core::read_file(source));
    files.push_back(target);
  };
  for (const auto& [name, called] : kTokenizerFiles)
    if (fs::is_regular_file(from / name)) copy(from / name, directory / called);
  const bool has_own_name = fs::is_regular_file(tokenizer) && !fs::exists(directory / tokenizer.filename());
  if (has_own_name && tokenizer.filename() != "encoder.json" && tokenizer.filename() != "vocab.bpe")
    copy(tokenizer, directory / tokenizer.filename());
  if (files.empty()) throw core::Error("no tokenizer files in " + from.string()).hint("look at dataset.tokenizer");
  return files;
}

}  // namespace trainctl::pretrained
