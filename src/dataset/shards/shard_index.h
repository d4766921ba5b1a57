// What is in a WebDataset shard: a tar archive in which the members with one name, up to its first dot, make a sample
// (https://github.com/webdataset/webdataset). Found once, then kept in a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"

namespace trainctl::dataset {

/// What a sample's members are.
struct ShardMembers {
  std::vector<std::string> image;  // endings of the image: the first that a sample has
  std::string label;               // ending of the label; "": there are none
  std::string label_member;        // of a label in JSON
};

/// A sample as it stands in the index file.
struct ShardSample {
  std::uint64_t image_offset = 0;
  std::uint64_t image_bytes = 0;
  std::uint64_t key_hash = 0;
  std::int64_t label = 0;  // a number; below kNoLabel: a name of the shard
  std::uint32_t key_begin = 0;
  std::uint32_t key_bytes = 0;
};
inline constexpr std::int64_t kNoLabel = -1;

/// What becomes of samples that aren't whole, and of all after the place where an archive is damaged.
enum class OnDamage { refuse, leave_out };

class ShardIndex {
 public:
  /// Reads the archive, or the file in `cache_dir` that an earlier call left ("" keeps none). Throws Error with shard
  /// and place for a damaged or cut archive, a sample without image or label, and an impossible label. With
  /// OnDamage::leave_out, it lists them in left_out() instead.
  static ShardIndex open(const std::filesystem::path& shard, std::span<const std::byte> archive,
                         const ShardMembers& members, const std::filesystem::path& cache_dir,
                         OnDamage on_damage = OnDamage::refuse);

  /// What was left out, a line for each (the first hundred).
  const std::vector<std::string>& left_out() const { return left_out_; }
  std::span<const ShardSample> samples() const { return samples_; }
  /// "some/folder/0007".
  std::string_view key(const ShardSample& sample) const {
    return std::string_view(keys_).substr(sample.key_begin, sample.key_bytes);
  }
  /// The largest label that is a number; kNoLabel: none is.
  std::int64_t largest_number() const { return largest_number_; }
  /// Returns a checksum of the samples, keys and label names. It is equal for an index from the archive and from the
  /// kept file.
  const std::string& fingerprint() const { return fingerprint_; }
  /// Labels that aren't numbers, in the order in which they came.
  const std::vector<std::string>& label_names() const { return label_names_; }
  /// The place in label_names() of a label below kNoLabel.
  static std::size_t name_of(std::int64_t label) { return static_cast<std::size_t>(kNoLabel - 1 - label); }

 private:
  friend class IndexBuilder;
  bool read(const std::filesystem::path& file);
  void settle();
  std::string bytes() const;

  core::MappedFile file_;
  std::vector<ShardSample> own_samples_;
  std::vector<char> own_keys_;  // a short string would move with its owner
  std::span<const ShardSample> samples_;
  std::string_view keys_;
  std::vector<std::string> label_names_;
  std::vector<std::string> left_out_;
  std::int64_t largest_number_ = kNoLabel;
  std::string fingerprint_;
};

}  // namespace trainctl::dataset
