// Files that are packed, told by their first bytes.
#pragma once

#include <string_view>

namespace trainctl::dataset {

struct Compression {
  std::string_view magic;
  const char* name;
  const char* unpack;  // a program
};

/// Returns what the bytes of a file are packed by; null if by none of the usual formats.
const Compression* compression_of(std::string_view bytes);

}  // namespace trainctl::dataset
