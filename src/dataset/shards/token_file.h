// Files of token ids, mapped: raw little-endian ids (nanoGPT's .bin), llm.c's .bin (a header of 256 int32, of which the
// first is 20240520 for 2-byte ids or 20240801 for 4-byte ids), or a one-dimensional .npy of integers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/mapped_file.h"
#include "dataset/config.h"
#include "dataset/shards/sampled_hash.h"

namespace trainctl::dataset {

class TokenFile {
 public:
  /// `raw_ids` is what a file without a header holds. A header that doesn't fit the file is an Error.
  TokenFile(const std::filesystem::path& path, TokenDtype raw_ids);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  /// Ids of tokens [begin, begin + to.size()). An id that isn't in [0, vocab_size) is an Error with file and byte.
  void copy(std::int64_t begin, std::span<std::int64_t> to, std::int64_t vocab_size) const;
  /// Returns the sampled hash of the ids (sampled_hash.h), and the bytes of an id.
  std::string fingerprint(const SampledHash& sample) const;

 private:
  enum class Width { u8, u16, u32, i32, u64 };
  void read_llmc_header();
  void read_npy_header();
  void set_ids(Width width, std::size_t offset);
  std::size_t id_bytes() const;

  std::filesystem::path path_;
  core::MappedFile file_;
  Width width_ = Width::u16;
  std::size_t offset_ = 0;  // of the first id
  std::int64_t num_tokens_ = 0;
};

}  // namespace trainctl::dataset
