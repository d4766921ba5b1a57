// Next-token prediction on files that are tokenised already: sequence i of a file is its tokens [i T, (i + 1) T], its
// targets their successors.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/files/file_list.h"
#include "dataset/shards/token_file.h"
#include "dataset/sources.h"

namespace trainctl::dataset {
namespace {

/// A run of a file's sequences.
struct Sequences {
  std::int64_t first = 0;  // in the file
  std::int64_t count = 0;
};

class TokenShards final : public RawSource {
 public:
  TokenShards(std::shared_ptr<const std::vector<TokenFile>> files, std::vector<Sequences> parts,
              const TokenizedConfig& config)
      : files_(std::move(files)), parts_(std::move(parts)), length_(config.seq_len) {
    spec_.input_shape = {length_};
    spec_.input_dtype = at::kLong;
    spec_.vocab_size = config.vocab_size;
    spec_.targets = Targets::next_tokens;
    for (const Sequences& part : parts_) {
      begins_.push_back(size_);
      size_ += part.count;
    }
  }

  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return (length_ + 1) * static_cast<std::int64_t>(sizeof(std::int64_t)); }

  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    const auto file =
        static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), index) - begins_.begin() - 1);
    const std::int64_t sequence = parts_[file].first + index - begins_[file];
    (*files_)[file].copy(sequence * length_,
                         {reinterpret_cast<std::int64_t*>(sample), static_cast<std::size_t>(length_ + 1)},
                         spec_.vocab_size);
    return 0;
  }

  std::string fingerprint() const override {
    std::string text = "tokens " + std::to_string(length_);
    std::vector<std::filesystem::path> paths;
    for (const TokenFile& file : *files_) paths.push_back(file.path());
    const SampledHash sample(paths);
    for (std::size_t i = 0; i < parts_.size(); ++i)
      text += " " + (*files_)[i].fingerprint(sample) + " " + std::to_string(parts_[i].first) + "+" +
              std::to_string(parts_[i].count);
    return core::checksum(text);
  }

 private:
  std::shared_ptr<const std::vector<TokenFile>> files_;
  std::vector<Sequences> parts_;      // of each file
  std::vector<std::int64_t> begins_;  // index of each part's first sequence
  std::int64_t length_;
  std::int64_t size_ = 0;
  SampleSpec spec_;
};

std::shared_ptr<const std::vector<TokenFile>> open_files(const std::vector<std::string>& patterns, std::string_view key,
                                                         TokenDtype ids) {
  auto files = std::make_shared<std::vector<TokenFile>>();
  for (const auto& path : expand_files(patterns, {{".bin", ".npy"}}, key)) files->emplace_back(path, ids);
  return files;
}

/// The part of each file's sequences that a set has: all, all but the last share, or that share.
enum class Part { all, training, evaluation };

std::unique_ptr<Source> make_source(const std::shared_ptr<const std::vector<TokenFile>>& files,
                                    const TokenizedConfig& config, Part part) {
  std::vector<Sequences> parts;
  std::int64_t total = 0;
  for (const TokenFile& file : *files) {
    const std::int64_t count = (file.num_tokens() - 1) / config.seq_len;
    const auto kept =
        part == Part::all ? 0 : static_cast<std::int64_t>(config.eval_fraction * static_cast<double>(count));
    parts.push_back(part == Part::evaluation ? Sequences{.first = count - kept, .count = kept}
                                             : Sequences{.first = 0, .count = count - kept});
    total += parts.back().count;
  }
  if (total == 0)
    throw core::Error("no sequence of " + core::format_count(config.seq_len) + " tokens fits into " +
                      files->front().path().string() + (files->size() > 1 ? " or the other files" : ""))
        .hint("a smaller dataset.seq_len, or another dataset.eval_fraction");
  return std::make_unique<TokenShards>(files, std::move(parts), config);
}

}  // namespace

Sources build(const TokenizedConfig& config, const LoaderOptions&) {
  const auto train = open_files(config.train, "dataset.train", config.token_dtype);
  const bool splits = config.eval.empty() && config.eval_fraction > 0;
  Sources sources;
  sources.train = make_source(train, config, splits ? Part::training : Part::all);
  if (splits) sources.eval = make_source(train, config, Part::evaluation);
  if (!config.eval.empty())
    sources.eval = make_source(open_files(config.eval, "dataset.eval", config.token_dtype), config, Part::all);
  return sources;
}

}  // namespace trainctl::dataset
