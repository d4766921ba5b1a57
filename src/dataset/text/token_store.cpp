#include "dataset/text/token_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::int64_t kMostTokens = std::int64_t{1} << 48;  // so that sizes in bytes don't overflow

struct Index {
  nlohmann::json json;
  fs::path path;

  template <class T>
  T get(const char* name) const {
    try {
      return json.at(name).get<T>();
    } catch (const nlohmann::json::exception&) {
      throw Error(path.string() + " is damaged: '" + name + "' is missing or of a wrong type")
          .hint("remove " + path.parent_path().string() + "; it is made anew");
    }
  }
};

Index read_index(const fs::path& directory) {
  Index index{.json = {}, .path = directory / "index.json"};
  try {
    index.json = nlohmann::json::parse(read_file(index.path, 64 << 20));
  } catch (const nlohmann::json::parse_error&) {
    throw Error(index.path.string() + " is damaged: it isn't JSON")
        .hint("remove " + directory.string() + "; it is made anew");
  }
  return index;
}

MappedFile open_part(const fs::path& path, std::uint64_t expected_bytes) {
  MappedFile file(path);
  if (file.bytes().size() != expected_bytes)
    throw Error(path.string() + " has " + format_count(static_cast<long long>(file.bytes().size())) +
                " bytes instead of " + format_count(static_cast<long long>(expected_bytes)))
        .hint("remove " + path.parent_path().string() + "; it is made anew");
  return file;
}

template <class Id>
void copy_ids(const std::byte* from, std::span<std::int64_t> to) {
  for (std::int64_t& value : to) {
    Id id;
    std::memcpy(&id, from, sizeof id);
    value = static_cast<std::int64_t>(id);
    from += sizeof id;
  }
}

}  // namespace

TokenStore::TokenStore(const fs::path& directory) {
  const Index index = read_index(directory);
  num_tokens_ = index.get<std::int64_t>("num_tokens");
  tokens_per_shard_ = index.get<std::int64_t>("tokens_per_shard");
  bytes_per_id_ = index.get<std::int64_t>("bytes_per_id");
  fingerprint_ = index.get<std::string>("fingerprint");
  const auto num_documents = index.get<std::int64_t>("num_documents");
  if (num_tokens_ < 1 || tokens_per_shard_ < 1 || num_documents < 1 || num_documents > num_tokens_ ||
      num_tokens_ > kMostTokens || tokens_per_shard_ > kMostTokens || (bytes_per_id_ != 2 && bytes_per_id_ != 4))
    throw Error(index.path.string() + " is damaged: its counts can't be right").hint("remove " + directory.string());
  bytes_per_token_ = static_cast<double>(index.get<std::int64_t>("num_bytes")) / static_cast<double>(num_tokens_);
  std::int64_t begin = 0;
  for (const std::string& name : index.get<std::vector<std::string>>("shards")) {
    const std::int64_t count = std::clamp<std::int64_t>(num_tokens_ - begin, 0, tokens_per_shard_);
    shards_.push_back(
        open_part(directory / fs::path(name).filename(), static_cast<std::uint64_t>(count * bytes_per_id_)));
    begin += count;
  }
  if (begin != num_tokens_)
    throw Error(index.path.string() + " is damaged: its shards hold too few tokens")
        .hint("remove " + directory.string());
  documents_ = open_part(directory / "documents.starts", static_cast<std::uint64_t>(num_documents + 1) * 8);
  document_starts_ = {reinterpret_cast<const std::uint64_t*>(documents_.bytes().data()),
                      static_cast<std::size_t>(num_documents + 1)};
  if (!std::is_sorted(document_starts_.begin(), document_starts_.end()) || document_starts_.front() != 0 ||
      document_starts_.back() != static_cast<std::uint64_t>(num_tokens_))
    throw Error((directory / "documents.starts").string() + " is damaged").hint("remove " + directory.string());
  if (index.get<bool>("word_starts"))
    words_ = open_part(directory / "words.starts", static_cast<std::uint64_t>((num_tokens_ + 7) / 8));
}

void TokenStore::copy(std::int64_t begin, std::span<std::int64_t> to) const {
  while (!to.empty()) {
    const std::int64_t offset = begin % tokens_per_shard_;
    const auto count =
        static_cast<std::size_t>(std::min(static_cast<std::int64_t>(to.size()), tokens_per_shard_ - offset));
    const std::byte* from =
        shards_[static_cast<std::size_t>(begin / tokens_per_shard_)].bytes().data() + offset * bytes_per_id_;
    if (bytes_per_id_ == 2)
      copy_ids<std::uint16_t>(from, to.first(count));
    else
      copy_ids<std::uint32_t>(from, to.first(count));
    to = to.subspan(count);
    begin += static_cast<std::int64_t>(count);
  }
}

std::int64_t TokenStore::document_of(std::int64_t token) const {
  const auto after =
      std::upper_bound(document_starts_.begin(), document_starts_.end(), static_cast<std::uint64_t>(token));
  return after - document_starts_.begin() - 1;
}

bool TokenStore::starts_word(std::int64_t token) const {
  const auto byte = static_cast<unsigned>(words_.bytes()[static_cast<std::size_t>(token / 8)]);
  return (byte >> static_cast<unsigned>(token % 8) & 1U) != 0;
}

}  // namespace trainctl
