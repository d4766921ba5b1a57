#include "dataset/shards/shard_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "core/utf8.h"
#include "dataset/sampler/split.h"
#include "dataset/shards/tar.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kIndexMagic = 0x3278646e6c637274;  // "trclndx2"
constexpr std::uint64_t kMostLabelBytes = 1 << 20;
constexpr std::size_t kMostNames = 1 << 20;
constexpr std::size_t kMostTold = 100;

/// The header of an index file. Then follow the samples, the keys, the names as JSON, and the checksum of all that (16
/// hex digits).
struct IndexHeader {
  std::uint64_t magic = kIndexMagic;
  std::uint64_t num_samples = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t name_bytes = 0;
};
constexpr std::size_t kChecksumBytes = 16;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

/// Returns the end of the key: the first dot in the last part of the name; npos if there is none. A part that begins
/// with a dot has no key: `._a.png` and `.DS_Store` of a Mac. Source: webdataset/tariterators.py, base_plus_ext.
std::size_t key_end(std::string_view name) {
  const std::size_t begin = name.rfind('/') + 1;  // 0: there is no slash
  const std::size_t dot = name.find('.', begin);
  return dot == begin ? std::string_view::npos : dot;
}

/// Returns the file of a shard's index. Other members, or a shard that was written anew, give another file. A program
/// can set the time of the content back, but not the inode's.
fs::path cache_file(const fs::path& shard, const ShardMembers& members, const fs::path& cache_dir) {
  struct stat status {};
  if (::stat(shard.c_str(), &status) != 0) throw core::system_error("read the size and time of", shard.string());
  std::string text = fs::absolute(shard).lexically_normal().string() + " " + std::to_string(status.st_size) + " " +
                     std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec) + " " +
                     std::to_string(status.st_ctim.tv_sec) + "." + std::to_string(status.st_ctim.tv_nsec) + " " +
                     std::to_string(status.st_ino) + " " + members.label + " " + members.label_member;
  for (const std::string& ending : members.image) text += " " + ending;
  return cache_dir / ("shard_" + core::checksum(text) + ".index");
}

/// Writes an index into the cache. A failure costs time in the next run, and does not end this one.
void keep(const fs::path& file, std::string_view bytes) {
  try {
    fs::create_directories(file.parent_path());
    core::write_file_atomically(file, bytes);
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

/// Gathers the members of one archive into samples.
class IndexBuilder {
 public:
  IndexBuilder(const fs::path& shard, std::span<const std::byte> archive, const ShardMembers& members,
               OnDamage on_damage)
      : shard_(shard), archive_(archive), members_(members), on_damage_(on_damage) {}

  ShardIndex build() {
    try {
      read_tar(archive_, shard_, [this](const TarMember& member) { add(member); });
      finish_sample();
    } catch (const core::Error& error) {
      leave_out(error);  // with the sample that the damage may have cut
    }
    index_.samples_ = index_.own_samples_;
    index_.keys_ = {index_.own_keys_.data(), index_.own_keys_.size()};
    return std::move(index_);
  }

 private:
  struct Pending {
    std::string key{};
    std::uint64_t offset = 0;  // of its first member
    std::size_t image_rank = ~std::size_t{0};
    TarMember image{};
    std::optional<TarMember> label{};
    std::set<std::string> endings{};
    std::string twice{};  // an ending that two members have
  };

  void add(const TarMember& member) {
    const std::size_t end = key_end(member.name);
    if (end == std::string::npos) return;
    const std::string_view key = std::string_view(member.name).substr(0, end);
    if (key != pending_.key) {
      finish_sample();
      pending_ = {.key = std::string(key), .offset = member.offset};
    }
    const std::string ending = lower(std::string_view(member.name).substr(end + 1));
    if (!pending_.endings.insert(ending).second) pending_.twice = ending;
    const auto rank = std::find(members_.image.begin(), members_.image.end(), ending) - members_.image.begin();
    if (static_cast<std::size_t>(rank) < std::min(members_.image.size(), pending_.image_rank)) {
      pending_.image_rank = static_cast<std::size_t>(rank);
      pending_.image = member;
    }
    if (!members_.label.empty() && ending == members_.label) pending_.label = member;
  }

  std::string place(const std::string& key, std::uint64_t offset) const {
    return shard_.string() + ": sample '" + key + "' (at byte " + core::format_count(static_cast<long long>(offset)) +
           ")";
  }

  void leave_out(const core::Error& error) {
    if (on_damage_ == OnDamage::refuse) throw error;
    if (index_.left_out_.size() < kMostTold) index_.left_out_.emplace_back(error.what());
  }

  void finish_sample() {
    if (pending_.key.empty()) return;
    try {
      add_sample();
    } catch (const core::Error& error) {
      leave_out(error);
    }
    pending_ = {};
  }

  void add_sample() {
    if (!pending_.twice.empty())
      throw core::Error(place(pending_.key, pending_.offset) + " has two members that end in ." + pending_.twice)
          .hint("give each sample a key of its own");
    if (pending_.image.name.empty())
      throw core::Error(place(pending_.key, pending_.offset) + " has no image: no member of it ends in ." +
                        core::list_words(members_.image, "or ."))
          .hint("dataset.image lists the endings that are images");
    index_.own_samples_.push_back({.image_offset = pending_.image.offset,
                                   .image_bytes = pending_.image.size,
                                   .key_hash = key_hash(pending_.key),
                                   .label = label(),
                                   .key_begin = static_cast<std::uint32_t>(index_.own_keys_.size()),
                                   .key_bytes = static_cast<std::uint32_t>(pending_.key.size())});
    index_.own_keys_.insert(index_.own_keys_.end(), pending_.key.begin(), pending_.key.end());
    if (index_.own_keys_.size() > ~std::uint32_t{0})
      throw core::Error(shard_.string() + " has too many samples for one shard")
          .hint("'trainctl data shard' makes smaller ones");
  }

  std::int64_t label() {
    if (members_.label.empty()) return kNoLabel;
    if (!pending_.label)
      throw core::Error(place(pending_.key, pending_.offset) + " has no label: no member of it ends in ." +
                        members_.label)
          .hint("dataset.label says which member is the label");
    const TarMember& member = *pending_.label;
    if (member.size > kMostLabelBytes)
      throw core::Error(place(pending_.key, member.offset) + ": its label has " +
                        core::format_count(static_cast<long long>(member.size)) + " bytes");
    const std::string_view text(reinterpret_cast<const char*>(archive_.data()) + member.offset, member.size);
    return members_.label.ends_with("json") ? json_label(text, member)
                                            : text_label(core::trimmed(text, " \t\r\n"), member);
  }

  std::int64_t json_label(std::string_view text, const TarMember& member) {
    const auto json = core::parse_json_or_discard(text);
    if (!json.is_object() || !json.contains(members_.label_member))
      throw core::Error(place(pending_.key, member.offset) + ": " + member.name +
                        (json.is_object() ? " has no member '" + members_.label_member + "'" : " is no JSON object"))
          .hint("dataset.label_member says which member is the label");
    const nlohmann::json& value = json[members_.label_member];
    // The value of an integer of more than 64 bits has lost digits.
    if (value.is_number_float() && std::abs(value.get<double>()) >= 0x1p63)
      throw core::Error(place(pending_.key, member.offset) + ": the label in " + member.name +
                        " is a number of more than 64 bits")
          .hint("write the label as a text, in quotes");
    return text_label(value.is_string() ? value.get<std::string>() : value.dump(), member);
  }

  std::int64_t text_label(std::string_view text, const TarMember& member) {
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = problem == std::errc() && end == text.data() + text.size();
    if (is_number && number >= 0) return number;
    if (is_number || text.empty() || text.size() > 1000)
      throw core::Error(place(pending_.key, member.offset) +
                        ": the label should be a class number or a name, but is '" + std::string(text.substr(0, 40)) +
                        "'");
    if (const std::size_t wrong = core::valid_prefix(text); wrong < text.size())
      throw core::Error(place(pending_.key, member.offset) + ": its label is not UTF-8 at byte " +
                        std::to_string(wrong + 1) + ": '" + core::replace_invalid(text.substr(0, 40)) + "'")
          .hint("write labels in UTF-8, or as class numbers");
    const auto [found, is_new] = names_.emplace(text, index_.label_names_.size());
    if (is_new) index_.label_names_.emplace_back(text);
    if (names_.size() > kMostNames) throw core::Error(shard_.string() + " has too many classes; is the label a class?");
    return kNoLabel - 1 - static_cast<std::int64_t>(found->second);
  }

  const fs::path& shard_;
  std::span<const std::byte> archive_;
  const ShardMembers& members_;
  OnDamage on_damage_;
  ShardIndex index_;
  Pending pending_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

ShardIndex ShardIndex::open(const fs::path& shard, std::span<const std::byte> archive, const ShardMembers& members,
                            const fs::path& cache_dir, OnDamage on_damage) {
  const fs::path file = cache_dir.empty() ? fs::path() : cache_file(shard, members, cache_dir);
  ShardIndex index;
  if (!file.empty() && index.read(file)) {
    const bool fits = std::all_of(index.samples_.begin(), index.samples_.end(), [&](const ShardSample& sample) {
      return sample.image_bytes <= archive.size() && sample.image_offset <= archive.size() - sample.image_bytes;
    });
    if (fits) return index;
  }
  index = IndexBuilder(shard, archive, members, on_damage).build();
  const std::string bytes = index.bytes();
  index.fingerprint_ = bytes.substr(bytes.size() - kChecksumBytes);
  index.settle();
  core::check_mapped_files();  // the archive's
  if (!file.empty() && index.left_out_.empty()) keep(file, bytes);
  return index;
}

void ShardIndex::settle() {
  for (const ShardSample& sample : samples_) largest_number_ = std::max(largest_number_, sample.label);
}

bool ShardIndex::read(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return false;
  file_ = core::MappedFile(file);
  const std::string_view text(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size());
  IndexHeader header;
  if (text.size() < sizeof header + kChecksumBytes) return false;
  std::memcpy(&header, text.data(), sizeof header);
  const std::size_t left = text.size() - sizeof header - kChecksumBytes;
  if (header.magic != kIndexMagic || header.num_samples > left / sizeof(ShardSample)) return false;
  const std::size_t sample_bytes = header.num_samples * sizeof(ShardSample);
  if (header.key_bytes > left - sample_bytes || header.name_bytes != left - sample_bytes - header.key_bytes)
    return false;
  const std::string_view content = text.substr(0, text.size() - kChecksumBytes);
  if (core::checksum(content) != text.substr(content.size())) return false;
  samples_ = {reinterpret_cast<const ShardSample*>(text.data() + sizeof header), header.num_samples};
  keys_ = text.substr(sizeof header + sample_bytes, header.key_bytes);
  const auto names =
      core::parse_json_or_discard(text.substr(sizeof header + sample_bytes + header.key_bytes, header.name_bytes));
  if (!names.is_array()) return false;
  label_names_ = names.get<std::vector<std::string>>();
  fingerprint_ = text.substr(content.size());
  settle();
  return true;
}

std::string ShardIndex::bytes() const {
  const std::string names = nlohmann::json(label_names_).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const IndexHeader header{.num_samples = samples_.size(), .key_bytes = keys_.size(), .name_bytes = names.size()};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  text.append(reinterpret_cast<const char*>(samples_.data()), samples_.size_bytes());
  text += keys_;
  text += names;
  return text + core::checksum(text);
}

}  // namespace trainctl::dataset
