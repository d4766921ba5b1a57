// Records in LevelDB's log format, as Weights & Biases' transaction log has them: blocks of 32 KiB, and in front of
// each part of a record its checksum, length and type. https://github.com/google/leveldb/blob/main/doc/log_format.md
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainctl::tracking {

/// Returns the seven bytes that a .wandb file begins with.
std::string wandb_log_header();

/// Returns the bytes that add a record to a log of `size` bytes. The checksum is zlib's CRC-32, as W&B takes it.
std::string leveldb_record(std::string_view data, std::int64_t size);

}  // namespace trainctl::tracking
