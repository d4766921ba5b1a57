#include "dataset/text/store/store_writer.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/mapped_file.h"
#include "dataset/text/store/source_checksums.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTokensPerShard = std::int64_t{1} << 27;
constexpr std::size_t kBufferBytes = 1 << 20;

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

/// A file, with the checksum of the bytes that were written so far.
class StoreWriter::Part {
 public:
  explicit Part(fs::path path) : path_(std::move(path)), file_(path_) {}

  void write(std::string_view bytes) {
    buffer_.append(bytes);
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void close() {
    if (closed_) return;
    flush();
    file_.close(core::Durability::disk);
    closed_ = true;
  }
  std::string name() const { return path_.filename().string(); }
  nlohmann::json note() const {
    return {{"bytes", file_.offset()}, {"checksum", sum_.digest()}, {"modified_ns", file_state(path_).modified_ns}};
  }

 private:
  void flush() {
    sum_.update(std::as_bytes(std::span(buffer_)));
    file_.write(buffer_);
    buffer_.clear();
  }

  fs::path path_;
  core::FileWriter file_;
  core::Checksum sum_;
  std::string buffer_;
  bool closed_ = false;
};

StoreWriter::StoreWriter(fs::path directory, StoreLayout layout)
    : directory_(std::move(directory)), layout_(layout), bytes_per_id_(layout_.vocab_size <= 1 << 16 ? 2 : 4) {
  fs::create_directories(directory_);
}

StoreWriter::~StoreWriter() = default;

StoreWriter::Part& StoreWriter::part(const std::string& name) {
  for (const std::unique_ptr<Part>& open : parts_)
    if (open->name() == name) return *open;
  return *parts_.emplace_back(std::make_unique<Part>(directory_ / name));
}

void StoreWriter::add(const StoreChunk& chunk) {
  const auto begin = static_cast<std::uint64_t>(num_tokens_);
  for (const std::size_t end : chunk.document_ends)
    if (begin + end > starts_.back()) starts_.push_back(begin + end);
  add_ids(chunk.ids);
  num_bytes_ += chunk.num_bytes;
  switch (layout_.kind) {
    case StoreKind::text:
      return;
    case StoreKind::text_with_words:
      return add_words(chunk.word_starts);
    case StoreKind::labelled_rows:
      part("types.bytes").write(bytes_of(chunk.types));
      targets_.insert(targets_.end(), chunk.targets.begin(), chunk.targets.end());
      return;
    case StoreKind::labelled_tokens:
      part("labels.int32").write(bytes_of(chunk.labels));
      return;
  }
}

void StoreWriter::add_ids(const std::vector<std::int32_t>& ids) {
  std::string bytes;
  for (std::size_t at = 0; at < ids.size();) {
    if (num_tokens_ % kTokensPerShard == 0) {
      if (!shards_.empty()) part(shards_.back()).close();
      char name[32];
      std::snprintf(name, sizeof name, "shard_%05zu.tokens", shards_.size());
      shards_.emplace_back(name);
    }
    const auto room = static_cast<std::size_t>(kTokensPerShard - num_tokens_ % kTokensPerShard);
    const std::size_t end = std::min(ids.size(), at + room);
    num_tokens_ += static_cast<std::int64_t>(end - at);
    bytes.clear();
    for (; at < end; ++at)
      bytes.append(reinterpret_cast<const char*>(&ids[at]), static_cast<std::size_t>(bytes_per_id_));
    part(shards_.back()).write(bytes);
  }
}

void StoreWriter::add_words(const std::vector<std::uint8_t>& starts) {
  std::string bytes;
  for (const std::uint8_t start : starts) {
    if (start != 0) words_ |= 1U << (num_words_ % 8);
    if (++num_words_ % 8 != 0) continue;
    bytes.push_back(static_cast<char>(words_));
    words_ = 0;
  }
  part("words.starts").write(bytes);
}

void StoreWriter::finish(const std::string& fingerprint) {
  if (num_tokens_ == 0) throw core::Error("the text has no tokens").hint("is it the right file, and the right column?");
  if (starts_.back() != static_cast<std::uint64_t>(num_tokens_))
    starts_.push_back(static_cast<std::uint64_t>(num_tokens_));
  part("documents.starts").write(bytes_of(starts_));
  if (layout_.kind == StoreKind::text_with_words && num_words_ % 8 != 0) {
    const char last = static_cast<char>(words_);
    part("words.starts").write({&last, 1});
  }
  if (layout_.kind == StoreKind::labelled_rows) {
    core::ensure(targets_.size() + 1 == starts_.size(), "each row of a store has a target");
    part("targets.int64").write(bytes_of(targets_));
  }
  for (const std::unique_ptr<Part>& open : parts_) open->close();
  core::check_mapped_files();  // the text's
  write_index(fingerprint);
}

void StoreWriter::write_index(const std::string& fingerprint) {
  nlohmann::json files;
  for (const std::unique_ptr<Part>& written : parts_) files[written->name()] = written->note();
  nlohmann::json index{{"version", kStoreVersion},
                       {"kind", kStoreKindNames[static_cast<std::size_t>(layout_.kind)]},
                       {"fingerprint", fingerprint},
                       {"num_tokens", num_tokens_},
                       {"num_documents", starts_.size() - 1},
                       {"num_bytes", num_bytes_},
                       {"bytes_per_id", bytes_per_id_},
                       {"tokens_per_shard", kTokensPerShard},
                       {"class_names", class_names_},
                       {"shards", shards_},
                       {"files", files}};
  if (!findings_.empty()) index["findings"] = findings_;
  core::write_file_atomically(directory_ / "index.json",
                              index.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n",
                              core::Durability::disk);
}

}  // namespace trainctl::dataset
