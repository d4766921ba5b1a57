// Small data files for tests, and the damage done to them.
#pragma once

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "dataset/config.h"
#include "runtime/random.h"
#include "support/temporary_directory.h"

namespace trainctl::testing {

inline std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

/// `count` images of rows × columns; pixel values from the position, so that every image differs.
inline std::string idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  std::string bytes = big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(columns);
  for (std::uint32_t i = 0; i < count * rows * columns; ++i) bytes += static_cast<char>(runtime::mix(i) & 0xff);
  return bytes;
}

/// Labels 0, 1, …, classes - 1, 0, 1, …
inline std::string idx_labels(std::uint32_t count, std::uint32_t classes) {
  std::string bytes = big_endian(0x801) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % classes);
  return bytes;
}

inline std::string gzip(const std::string& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// The message of the Error that `action` must end in.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

/// An IDX set of `count` images of rows × columns in files of its own.
inline dataset::IdxFiles write_idx(const TemporaryDirectory& directory, const std::string& prefix, std::uint32_t count,
                                   std::uint32_t rows = 3, std::uint32_t columns = 5, std::uint32_t classes = 10) {
  return {.images = directory.write(prefix + "-images", idx_images(count, rows, columns)),
          .labels = directory.write(prefix + "-labels", idx_labels(count, classes))};
}

}  // namespace trainctl::testing
