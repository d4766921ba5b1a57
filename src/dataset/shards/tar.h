// Tar archives read in place: POSIX ustar and pax, GNU long names (POSIX.1-2017, pax "ustar Interchange Format" and
// "pax Interchange Format"; GNU tar manual, "Basic Tar Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace trainctl::dataset {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of its content, in the archive
  std::uint64_t size = 0;
};

/// Calls `use` for each regular file, in order. Returns normally at the end mark; throws an Error with path and byte
/// where the archive is damaged or cut, or is compressed. Members before that were given to `use`.
void read_tar(std::span<const std::byte> archive, const std::filesystem::path& path,
              const std::function<void(const TarMember&)>& use);

/// A header of 512 bytes (preceded by a pax header where the name or size need one) for a file in a new archive.
std::string tar_header(const std::string& name, std::uint64_t size);
/// Zeros that fill a member's last block.
std::string tar_padding(std::uint64_t size);
/// What an archive ends with.
std::string tar_end();

inline constexpr std::uint64_t kTarBlock = 512;

}  // namespace trainctl::dataset
