// Files of images, read whole.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trainctl::dataset {

/// Reads a file into the buffer, which grows if it must; returns the file's size. Throws BadSample if the file can't be
/// read.
std::size_t read_image_file(const std::string& path, std::vector<std::byte>& buffer);

/// Lets the system begin to read a file, without waiting for it.
void expect_image_file(const std::string& path);

}  // namespace trainctl::dataset
