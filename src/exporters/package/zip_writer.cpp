#include "exporters/package/zip_writer.h"

#include <minizip/zip.h>

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace trainctl::exporters {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();
constexpr uLong kFirstDay = 0x00210000;  // 1980-01-01, so that equal content gives equal bytes
constexpr int kStored = 0;
constexpr uLong kVersion = 20;  // of the format

int close_unfinished(void* zip) {
  return zipClose(zip, nullptr);
}

}  // namespace

ZipWriter::ZipWriter(const std::filesystem::path& path)
    : path_(path), zip_(zipOpen64(path.c_str(), APPEND_STATUS_CREATE), close_unfinished) {
  if (zip_ == nullptr) throw core::system_error("open", path_.string());
}

void ZipWriter::add(const std::string& name, std::string_view content) {
  // Twice the name, and its two headers.
  size_ += content.size() + 2 * (name.size() + 64);
  if (size_ > kMostBytes)
    throw core::Error("the archive would have more than 4 GiB, which its readers don't take")
        .hint("export to onnx, whose tensors may lie in a file of their own");
  zip_fileinfo info{};
  info.dosDate = kFirstDay;
  if (zipOpenNewFileInZip4_64(zip_.get(), name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, kStored, 0, 0,
                              -MAX_WBITS, DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY, nullptr, 0, kVersion, 0, 0) != ZIP_OK)
    fail();
  while (!content.empty()) {
    const std::string_view part = content.substr(0, std::size_t{1} << 30);
    if (zipWriteInFileInZip(zip_.get(), part.data(), static_cast<unsigned>(part.size())) != ZIP_OK) fail();
    content.remove_prefix(part.size());
  }
  if (zipCloseFileInZip(zip_.get()) != ZIP_OK) fail();
}

void ZipWriter::close() {
  if (zipClose(zip_.release(), nullptr) != ZIP_OK) fail();
}

void ZipWriter::fail() const {
  throw core::system_error("write", path_.string());
}

}  // namespace trainctl::exporters
