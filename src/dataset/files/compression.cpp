#include "dataset/files/compression.h"

namespace trainctl::dataset {

using namespace std::string_view_literals;

const Compression* compression_of(std::string_view bytes) {
  static constexpr Compression kKinds[] = {{"\x1f\x8b"sv, "gzip", "gunzip"},
                                           {"\x28\xb5\x2f\xfd"sv, "zstandard", "unzstd"},
                                           {"BZh"sv, "bzip2", "bunzip2"},
                                           {"\xfd"
                                            "7zXZ\0"sv,
                                            "xz", "unxz"},
                                           {"PK\x03\x04"sv, "zip", "unzip"}};
  for (const Compression& kind : kKinds)
    if (bytes.starts_with(kind.magic) && (kind.magic != "BZh" || bytes.substr(4, 2) == "1A")) return &kind;
  return nullptr;
}

}  // namespace trainctl::dataset
