#include "dataset/image/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::dataset {
namespace {

constexpr std::uint64_t kBestRatio = 1032;  // deflate stores at most 258 bytes in 2 bits (zlib's technical notes)
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

}  // namespace

class ContentReader::Inflater {
 public:
  Inflater(std::string_view stored, const std::string& path) : stored_(stored), path_(path) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK)
      throw core::Error("cannot decompress " + path_ + ": out of memory");  // 16: gzip
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  std::uint64_t left() const { return stored_.size() - at_; }

  std::size_t read(std::span<std::byte> out) {
    std::size_t filled = 0;
    while (filled < out.size() && !ended_) filled += inflate_some(out.subspan(filled));
    return filled;
  }

 private:
  std::size_t inflate_some(std::span<std::byte> out) {
    const std::size_t input = std::min(stored_.size() - at_, kMostAtOnce);
    const std::size_t output = std::min(out.size(), kMostAtOnce);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored_.data() + at_));  // zlib doesn't write to it
    stream_.avail_in = static_cast<uInt>(input);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(output);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    at_ += input - stream_.avail_in;
    const std::size_t filled = output - stream_.avail_out;
    if (status == Z_STREAM_END) {
      next_member();
    } else if (status == Z_OK || status == Z_BUF_ERROR) {
      if (at_ == stored_.size() && filled < output) fail("the gzip data ends too early");
    } else {
      fail(std::string("bad gzip data (") + (stream_.msg != nullptr ? stream_.msg : zError(status)) + ")");
    }
    return filled;
  }

  void next_member() {
    if (at_ == stored_.size()) {
      ended_ = true;
      return;
    }
    if (!is_gzip(stored_.substr(at_))) fail("trailing bytes after the gzip data");
    if (inflateReset(&stream_) != Z_OK) fail("cannot go on with the next gzip member");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw core::Error(path_ + ": " + what + " at byte " + std::to_string(at_) + " of " + std::to_string(stored_.size()))
        .hint("the file is damaged or was not downloaded whole; get it again");
  }

  std::string_view stored_;
  const std::string& path_;
  z_stream stream_{};
  std::size_t at_ = 0;
  bool ended_ = false;
};

ContentReader::ContentReader(const std::filesystem::path& path) : path_(path.string()), stored_(core::read_file(path)) {
  if (stored_.empty()) throw core::Error(path_ + " is empty");
  if (is_gzip(stored_)) inflater_ = std::make_unique<Inflater>(stored_, path_);
}

ContentReader::~ContentReader() = default;

std::uint64_t ContentReader::most_left() const {
  return inflater_ ? (inflater_->left() + 1) * kBestRatio : stored_.size() - offset_;
}

std::size_t ContentReader::read(std::span<std::byte> out) {
  std::size_t filled = 0;
  if (inflater_) {
    filled = inflater_->read(out);
  } else {
    filled = std::min(out.size(), stored_.size() - static_cast<std::size_t>(offset_));
    if (filled > 0) std::memcpy(out.data(), stored_.data() + offset_, filled);
  }
  offset_ += filled;
  return filled;
}

std::string ContentReader::at(std::uint64_t offset) const {
  return "at byte " + std::to_string(offset) + (compressed() ? " of its uncompressed content" : "");
}

}  // namespace trainctl::dataset
