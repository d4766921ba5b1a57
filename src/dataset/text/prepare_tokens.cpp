// Tokenises text by all cores and writes it as a TokenStore.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/text/text_reader.h"
#include "dataset/text/token_store.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;

constexpr int kFormatVersion = 1;
constexpr std::int64_t kTokensPerShard = std::int64_t{1} << 27;
constexpr std::size_t kChunkBytes = 1 << 20;

/// Documents that one thread tokenises, and what comes of them.
struct Chunk {
  std::vector<std::string> texts;
  std::vector<std::int32_t> ids{};
  std::vector<std::size_t> document_ends{};  // in ids
  std::vector<std::uint8_t> word_starts{};   // one for each id
};

Chunk tokenize(Chunk chunk, const StoreRequest& request) {
  const std::optional<std::int32_t> end = request.tokenizer.roles().end;
  for (const std::string& text : chunk.texts) {
    if (request.marks == TokenMarks::word_starts) {
      const Encoding encoding = request.tokenizer.encode(text, {.special_tokens = SpecialTokens::leave_out});
      for (std::size_t i = 0; i < encoding.ids.size(); ++i)
        chunk.word_starts.push_back(i == 0 || encoding.words[i] != encoding.words[i - 1] ? 1 : 0);
      chunk.ids.insert(chunk.ids.end(), encoding.ids.begin(), encoding.ids.end());
    } else {
      request.tokenizer.append_ids(text, chunk.ids);
      if (end) chunk.ids.push_back(*end);
    }
    chunk.document_ends.push_back(chunk.ids.size());
  }
  return chunk;
}

/// Writes the parts of a store into a directory, in the order of the tokens.
class StoreWriter {
 public:
  StoreWriter(fs::path directory, const StoreRequest& request)
      : directory_(std::move(directory)),
        bytes_per_id_(request.tokenizer.vocab_size() <= 1 << 16 ? 2 : 4),
        has_words_(request.marks == TokenMarks::word_starts) {
    fs::create_directories(directory_);
    starts_.push_back(0);
  }

  void add(const Chunk& chunk) {
    for (const std::int32_t id : chunk.ids) add_id(id);
    std::size_t begin = 0;
    for (const std::size_t end : chunk.document_ends) {
      if (end > begin) starts_.push_back(starts_.back() + (end - begin));
      begin = end;
    }
    for (const std::uint8_t starts : chunk.word_starts) add_word(starts != 0);
    for (const std::string& text : chunk.texts) num_bytes_ += static_cast<std::int64_t>(text.size());
  }

  void finish(const std::string& fingerprint) {
    if (num_tokens_ == 0) throw Error("the text has no tokens").hint("is it the right file, and the right column?");
    close_shard();
    write_file_atomically(
        directory_ / "documents.starts",
        std::string_view(reinterpret_cast<const char*>(starts_.data()), starts_.size() * sizeof starts_[0]),
        Durability::disk);
    if (has_words_) write_file_atomically(directory_ / "words.starts", words_, Durability::disk);
    const nlohmann::json index{
        {"version", kFormatVersion},           {"fingerprint", fingerprint}, {"num_tokens", num_tokens_},
        {"num_documents", starts_.size() - 1}, {"num_bytes", num_bytes_},    {"bytes_per_id", bytes_per_id_},
        {"tokens_per_shard", kTokensPerShard}, {"shards", shards_},          {"word_starts", has_words_}};
    write_file_atomically(directory_ / "index.json", index.dump(1) + "\n", Durability::disk);
  }

 private:
  void add_id(std::int32_t id) {
    if (num_tokens_ % kTokensPerShard == 0) {
      close_shard();
      char name[32];
      std::snprintf(name, sizeof name, "shard_%05zu.tokens", shards_.size());
      shards_.emplace_back(name);
      shard_.emplace(directory_ / name);
    }
    const auto size = static_cast<std::size_t>(bytes_per_id_);
    buffer_.append(reinterpret_cast<const char*>(&id), size);
    if (buffer_.size() >= kChunkBytes) flush();
    ++num_tokens_;
  }

  void add_word(bool starts) {
    if (num_words_ % 8 == 0) words_.push_back('\0');
    if (starts) words_.back() = static_cast<char>(static_cast<unsigned char>(words_.back()) | 1U << (num_words_ % 8));
    ++num_words_;
  }

  void flush() {
    shard_->write(buffer_);
    buffer_.clear();
  }

  void close_shard() {
    if (!shard_) return;
    flush();
    shard_->close(Durability::disk);
    shard_.reset();
  }

  fs::path directory_;
  std::int64_t bytes_per_id_;
  bool has_words_;
  std::optional<FileWriter> shard_;
  std::string buffer_;
  std::vector<std::string> shards_;
  std::vector<std::uint64_t> starts_;
  std::string words_;
  std::uint64_t num_words_ = 0;
  std::int64_t num_tokens_ = 0;
  std::int64_t num_bytes_ = 0;
};

std::string fingerprint_of(const StoreRequest& request) {
  const TextFiles& files = request.files;
  std::string text = "tokens " + std::to_string(kFormatVersion) + " " + request.tokenizer.fingerprint() + " " +
                     std::to_string(static_cast<int>(files.format)) + std::to_string(static_cast<int>(files.document)) +
                     std::to_string(static_cast<int>(files.invalid_utf8)) +
                     std::to_string(static_cast<int>(request.marks)) + " " +
                     std::to_string(files.header_lines.value.value_or(-1)) + " " + files.text;
  for (const std::string& file : files.files) text += " " + fs::path(file).extension().string() + checksum_file(file);
  return checksum(text);
}

/// Reads on this thread, tokenises on the others, writes in order.
void write_tokens(const StoreRequest& request, StoreWriter& writer) {
  const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
  std::deque<std::future<Chunk>> running;
  const auto take = [&] {
    writer.add(running.front().get());
    running.pop_front();
  };
  Chunk next;
  std::size_t bytes = 0;
  const auto start = [&] {
    if (running.size() >= most) take();
    running.push_back(std::async(std::launch::async, [&request, chunk = std::move(next)]() mutable {
      return tokenize(std::move(chunk), request);
    }));
    next = {};
    bytes = 0;
  };
  read_documents(request.files, [&](std::string_view text) {
    next.texts.emplace_back(text);
    bytes += text.size();
    if (bytes >= kChunkBytes) start();
  });
  if (!next.texts.empty()) start();
  while (!running.empty()) take();
}

}  // namespace

fs::path prepare_tokens(const StoreRequest& request) {
  const std::string fingerprint = fingerprint_of(request);
  const fs::path directory = request.cache_dir / fingerprint;
  if (fs::exists(directory / "index.json")) return directory;
  const fs::path beside = request.cache_dir / ("." + fingerprint + "-" + std::to_string(::getpid()));
  if (request.tell) request.tell("tokenising " + list_words(request.files.files) + " into " + directory.string());
  try {
    StoreWriter writer(beside, request);
    write_tokens(request, writer);
    writer.finish(fingerprint);
    std::error_code taken;
    fs::rename(beside, directory, taken);
    if (taken && !fs::exists(directory / "index.json"))
      throw Error("cannot rename " + beside.string() + " to " + directory.string() + ": " + taken.message());
    sync_directory(request.cache_dir);
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(beside, ignored);
    throw Error("cannot write " + beside.string() + ": " + error.code().message())
        .hint("set dataset.cache_dir to a directory that can be written");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(beside, ignored);
    throw;
  }
  std::error_code ignored;
  fs::remove_all(beside, ignored);  // another process was faster
  return directory;
}

}  // namespace trainctl
