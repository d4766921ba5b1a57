#include "dataset/text/store/token_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "dataset/text/store/source_checksums.h"
#include "dataset/text/store/store_writer.h"
#include "dataset/widen.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::int64_t kMostTokens = std::int64_t{1} << 48;  // so that sizes in bytes don't overflow

core::Error damaged(const fs::path& file, const std::string& what) {
  return core::Error(file.string() + " " + what)
      .hint("remove " + file.parent_path().string() + "; it is made anew (trainctl data prepare)");
}

/// Sets the noted time of a copied file, so that later runs need not read all of it again.
void restore_time(const fs::path& file, std::int64_t modified_ns) {
  const timespec time{.tv_sec = modified_ns / 1'000'000'000, .tv_nsec = modified_ns % 1'000'000'000};
  const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, time};
  if (::utimensat(AT_FDCWD, file.c_str(), times, 0) != 0) return;  // not our file: it is read again next time
}

}  // namespace

/// The content of index.json, and the check of the files that it names.
struct TokenStore::Index {
  fs::path directory;
  StoreCheck check;
  nlohmann::json json{};

  Index(fs::path where, StoreCheck how) : directory(std::move(where)), check(how) {
    json = core::parse_json_or_discard(core::read_file(path(), 64 << 20));
    if (json.is_discarded()) throw damaged(path(), "is damaged: it isn't JSON");
    if (get<std::int64_t>(json, "version") != kStoreVersion) throw damaged(path(), "is of another version");
  }

  fs::path path() const { return directory / "index.json"; }

  template <class T>
  T get(const nlohmann::json& object, const char* name) const {
    try {
      return object.at(name).get<T>();
    } catch (const nlohmann::json::exception&) {
      throw damaged(path(), "is damaged: '" + std::string(name) + "' is missing or of a wrong type");
    }
  }
  template <class T>
  T get(const char* name) const {
    return get<T>(json, name);
  }

  core::MappedFile open(const std::string& name, std::int64_t expected_bytes) const {
    const fs::path file = directory / name;
    core::MappedFile mapped(file);
    const auto size = static_cast<std::int64_t>(mapped.bytes().size());
    if (size != expected_bytes)
      throw damaged(file,
                    "has " + core::format_count(size) + " bytes instead of " + core::format_count(expected_bytes));
    const nlohmann::json noted = get<nlohmann::json>(get<nlohmann::json>("files"), name.c_str());
    const auto modified_ns = get<std::int64_t>(noted, "modified_ns");
    const bool touched = file_state(file).modified_ns != modified_ns;
    if (!touched && check == StoreCheck::files_changed) return mapped;
    if (core::checksum(mapped.bytes()) != get<std::string>(noted, "checksum"))
      throw damaged(file, "is damaged: its checksum is not the one in index.json");
    if (touched) restore_time(file, modified_ns);
    return mapped;
  }
};

TokenStore::TokenStore(const fs::path& directory, StoreCheck check) {
  const Index index(directory, check);
  read_counts(index);
  open_shards(index);
  open_documents(index);
  open_columns(index);
}

void TokenStore::read_counts(const Index& index) {
  num_tokens_ = index.get<std::int64_t>("num_tokens");
  tokens_per_shard_ = index.get<std::int64_t>("tokens_per_shard");
  bytes_per_id_ = index.get<std::int64_t>("bytes_per_id");
  num_bytes_ = index.get<std::int64_t>("num_bytes");
  fingerprint_ = index.get<std::string>("fingerprint");
  class_names_ = index.get<std::vector<std::string>>("class_names");
  if (index.json.contains("findings")) findings_ = index.get<std::vector<std::string>>("findings");
  const std::string kind = index.get<std::string>("kind");
  const auto& kinds = kStoreKindNames;
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  if (num_tokens_ < 1 || tokens_per_shard_ < 1 || num_tokens_ > kMostTokens || tokens_per_shard_ > kMostTokens ||
      num_bytes_ < 0 || (bytes_per_id_ != 2 && bytes_per_id_ != 4) || found == kinds.end())
    throw damaged(index.path(), "is damaged: its counts can't be right");
  kind_ = static_cast<StoreKind>(found - kinds.begin());
}

void TokenStore::open_shards(const Index& index) {
  std::int64_t begin = 0;
  for (const std::string& name : index.get<std::vector<std::string>>("shards")) {
    const std::int64_t count = std::clamp<std::int64_t>(num_tokens_ - begin, 0, tokens_per_shard_);
    shards_.push_back(index.open(fs::path(name).filename().string(), count * bytes_per_id_));
    begin += count;
  }
  if (begin != num_tokens_) throw damaged(index.path(), "is damaged: its shards hold too few tokens");
}

void TokenStore::open_documents(const Index& index) {
  const auto num_documents = index.get<std::int64_t>("num_documents");
  if (num_documents < 1 || num_documents > num_tokens_)
    throw damaged(index.path(), "is damaged: its number of documents can't be right");
  documents_ = index.open("documents.starts", (num_documents + 1) * 8);
  document_starts_ = {reinterpret_cast<const std::uint64_t*>(documents_.bytes().data()),
                      static_cast<std::size_t>(num_documents + 1)};
  if (!std::is_sorted(document_starts_.begin(), document_starts_.end()) || document_starts_.front() != 0 ||
      document_starts_.back() != static_cast<std::uint64_t>(num_tokens_))
    throw damaged(index.directory / "documents.starts", "is damaged: its numbers don't rise");
}

void TokenStore::open_columns(const Index& index) {
  switch (kind_) {
    case StoreKind::text:
      return;
    case StoreKind::text_with_words:
      words_ = index.open("words.starts", (num_tokens_ + 7) / 8);
      return;
    case StoreKind::labelled_rows:
      types_ = index.open("types.bytes", num_tokens_);
      targets_ = index.open("targets.int64", num_documents() * 8);
      return;
    case StoreKind::labelled_tokens:
      labels_ = index.open("labels.int32", num_tokens_ * 4);
      return;
  }
}

void TokenStore::copy(std::int64_t begin, std::span<std::int64_t> to) const {
  while (!to.empty()) {
    const std::int64_t offset = begin % tokens_per_shard_;
    const auto count =
        static_cast<std::size_t>(std::min(static_cast<std::int64_t>(to.size()), tokens_per_shard_ - offset));
    const std::byte* from =
        shards_[static_cast<std::size_t>(begin / tokens_per_shard_)].bytes().data() + offset * bytes_per_id_;
    if (bytes_per_id_ == 2)
      widen<std::uint16_t>(from, to.first(count));
    else
      widen<std::uint32_t>(from, to.first(count));
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

void TokenStore::copy_types(std::int64_t begin, std::span<std::int64_t> to) const {
  widen<std::uint8_t>(types_.bytes().data() + begin, to);
}

void TokenStore::copy_labels(std::int64_t begin, std::span<std::int64_t> to) const {
  widen<std::int32_t>(labels_.bytes().data() + begin * 4, to);
}

std::int64_t TokenStore::target_of(std::int64_t document) const {
  std::int64_t target = 0;
  widen<std::int64_t>(targets_.bytes().data() + document * 8, {&target, 1});
  return target;
}

}  // namespace trainctl::dataset
