#include "dataset/shards/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "dataset/files/compression.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

// Fields of a header: offset and length.
struct HeaderField {
  std::size_t offset;
  std::size_t length;
};
constexpr HeaderField kName{0, 100};
constexpr HeaderField kSize{124, 12};
constexpr HeaderField kChecksum{148, 8};
constexpr HeaderField kTarMagic{257, 5};
constexpr HeaderField kPrefix{345, 155};
constexpr std::size_t kType = 156;

constexpr std::uint64_t kMostExtraBytes = 1 << 20;  // of a long name or a pax header
constexpr std::uint64_t kLargestOctalSize = 077777777777;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view field_text(std::string_view header, HeaderField field) {
  const std::string_view text = header.substr(field.offset, field.length);
  return text.substr(0, text.find('\0'));
}

/// Reads a number: octal digits between blanks, or base 256 if the first bit is set (GNU).
std::optional<std::uint64_t> field_number(std::string_view header, HeaderField field) {
  const std::string_view text = header.substr(field.offset, field.length);
  if ((static_cast<unsigned char>(text[0]) & 0x80U) != 0) {
    std::uint64_t value = static_cast<unsigned char>(text[0]) & 0x7FU;
    for (const char c : text.substr(1)) {
      if (value >> 55U != 0) return std::nullopt;
      value = value << 8U | static_cast<unsigned char>(c);
    }
    return value;
  }
  std::uint64_t value = 0;
  bool any = false;
  for (const char c : text) {
    if (c >= '0' && c <= '7') {
      value = value << 3U | static_cast<std::uint64_t>(c - '0');
      any = true;
    } else if (c != ' ' || any) {
      if (c != ' ' && c != '\0') return std::nullopt;
      break;
    }
  }
  return value;
}

/// Checks a header's checksum. Most programs sum bytes as unsigned, some old ones as signed; the checksum's own bytes
/// count as blanks.
bool has_right_checksum(std::string_view header) {
  const std::optional<std::uint64_t> expected = field_number(header, kChecksum);
  std::int64_t as_unsigned = 0;
  std::int64_t as_signed = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.length;
    const char c = own ? ' ' : header[i];
    as_unsigned += static_cast<unsigned char>(c);
    as_signed += static_cast<signed char>(c);
  }
  return expected &&
         (static_cast<std::int64_t>(*expected) == as_unsigned || static_cast<std::int64_t>(*expected) == as_signed);
}

/// What a member has instead of its header's name and size.
struct Extra {
  std::optional<std::string> name{};
  std::optional<std::uint64_t> size{};
  bool is_sparse = false;  // as GNU tar writes sparse files into pax archives
};

/// Reads the records of a pax header, "27 path=some/name\n" each; false if they are damaged.
bool read_pax(std::string_view records, Extra& extra) {
  while (!records.empty() && records.front() != '\0') {
    std::size_t length = 0;
    const auto [end, problem] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (problem != std::errc() || length < digits + 3 || length > records.size() || *end != ' ' ||
        records[length - 1] != '\n')
      return false;
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view value = record.substr(equals + 1);
    if (record.substr(0, equals) == "path") extra.name = value;
    if (record.starts_with("GNU.sparse.")) extra.is_sparse = true;
    if (record.substr(0, equals) == "size") {
      std::uint64_t size = 0;
      const auto [stop, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (wrong != std::errc() || stop != value.data() + value.size()) return false;
      extra.size = size;
    }
    records.remove_prefix(length);
  }
  return true;
}

class TarReader {
 public:
  TarReader(std::span<const std::byte> archive, const fs::path& path) : bytes_(as_text(archive)), path_(path) {}

  void read(const std::function<void(const TarMember&)>& use) {
    refuse_compressed();
    while (!at_end_mark()) {
      const std::string_view header = take_header();
      const char type = header[kType];
      const std::uint64_t size = size_of(header);
      const std::string name = name_of(header);
      check_content(name, size);
      if (is_pax(type) || type == 'L')
        read_extra(type, bytes_.substr(at_, size));
      else
        use_member(type, {.name = name, .offset = at_, .size = size}, use);
      // An archive may end without the zeros that fill the last block: then the end mark is missing, which is told.
      at_ += (size + kTarBlock - 1) / kTarBlock * kTarBlock;
    }
  }

 private:
  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const {
    throw core::Error(path_.string() + " is damaged at byte " + core::format_count(offset) + ": " + what)
        .hint("get the shard again, or make it anew");
  }

  void refuse_compressed() const {
    if (const Compression* kind = compression_of(bytes_))
      throw core::Error(path_.string() + " is compressed (" + kind->name +
                        "): one can't go to a sample in it without unpacking all before it")
          .hint(std::string(kind->unpack) + " it; images are compressed already, so little space is lost");
  }

  /// Returns whether the end mark is here: two blocks of zeros, or one that is the file's last.
  bool at_end_mark() {
    if (at_ >= bytes_.size())
      fail(bytes_.size(), at_ == 0 ? "the file is empty" : "it ends without an end mark, so it was cut short");
    if (bytes_.size() - at_ < kTarBlock)
      fail(at_,
           "a header of 512 bytes should follow, but only " + core::format_count(bytes_.size() - at_) + " bytes do");
    const auto is_zero = [&](std::uint64_t offset) {
      return bytes_.substr(offset, kTarBlock).find_first_not_of('\0') == std::string_view::npos;
    };
    return is_zero(at_);
  }

  std::string_view take_header() {
    const std::string_view header = bytes_.substr(at_, kTarBlock);
    if (!has_right_checksum(header))
      fail(at_, at_ == 0 ? "this is no tar archive (its first header has a wrong checksum)"
                         : "the header's checksum is wrong");
    at_ += kTarBlock;
    return header;
  }

  std::uint64_t size_of(std::string_view header) {
    if (is_member(header[kType]) && extra_.size) return *extra_.size;
    if (is_member(header[kType]) && of_all_.size) return *of_all_.size;
    const std::optional<std::uint64_t> size = field_number(header, kSize);
    if (!size) fail(at_ - kTarBlock + kSize.offset, "the member's size is not a number");
    const char type = header[kType];
    const bool is_link_or_device = type >= '1' && type <= '6';
    return is_link_or_device ? 0 : *size;
  }

  std::string name_of(std::string_view header) const {
    if (is_member(header[kType]) && extra_.name) return *extra_.name;
    if (is_member(header[kType]) && of_all_.name) return *of_all_.name;
    std::string name(field_text(header, kName));
    const bool is_posix = header.substr(kTarMagic.offset, kTarMagic.length + 1) == std::string_view("ustar\0", 6);
    const std::string_view prefix = field_text(header, kPrefix);
    return is_posix && !prefix.empty() ? std::string(prefix) + "/" + name : name;
  }

  void check_content(const std::string& name, std::uint64_t size) const {
    if (size > bytes_.size() - at_)
      fail(bytes_.size(), "the content of '" + name + "', " + core::format_count(size) + " bytes from byte " +
                              core::format_count(at_) + " on, goes beyond the end of the file");
  }

  void read_extra(char type, std::string_view content) {
    if (content.size() > kMostExtraBytes)
      fail(at_, "a member's name can't take " + core::format_count(content.size()) + " bytes");
    if (type != 'g' && (extra_.name || extra_.size))
      fail(at_, "the member has two names or sizes, in two headers before its own");
    if (type == 'L')
      extra_.name = content.substr(0, content.find('\0'));
    else if (!read_pax(content, type == 'g' ? of_all_ : extra_))
      fail(at_, "the pax header can't be read");
  }

  void use_member(char type, const TarMember& member, const std::function<void(const TarMember&)>& use) {
    if (type == 'S' || (is_member(type) && (extra_.is_sparse || of_all_.is_sparse)))
      fail(at_ - kTarBlock, "'" + member.name + "' is a sparse file, which can't be read in place");
    if (is_member(type) && !member.name.ends_with('/')) use(member);
    if (type != 'K') extra_ = {};
  }

  static bool is_pax(char type) { return type == 'x' || type == 'g' || type == 'X'; }  // X: Solaris
  static bool is_member(char type) { return type == '0' || type == '\0' || type == '7'; }

  std::string_view bytes_;
  const fs::path& path_;
  std::uint64_t at_ = 0;
  Extra extra_;   // of the next member
  Extra of_all_;  // of all members that follow
};

void put_octal(std::string& header, HeaderField field, std::uint64_t value) {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), "%0*llo", static_cast<int>(field.length - 1),
                static_cast<unsigned long long>(value));
  header.replace(field.offset, field.length - 1, std::string_view(digits.data()).substr(0, field.length - 1));
}

std::string plain_header(std::string_view name, std::uint64_t size, char type) {
  std::string header(kTarBlock, '\0');
  header.replace(kName.offset, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(108, 7, "0000000");
  header.replace(116, 7, "0000000");
  put_octal(header, kSize, size);
  header.replace(136, 11, "00000000000");  // no time: the same samples give the same bytes
  header[kType] = type;
  header.replace(kTarMagic.offset, 8, std::string_view("ustar\00000", 8));
  header.replace(kChecksum.offset, kChecksum.length, std::string(kChecksum.length, ' '));
  std::uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put_octal(header, {kChecksum.offset, 7}, sum);
  header[kChecksum.offset + 6] = '\0';
  return header;
}

std::string pax_record(std::string_view key, std::string_view value) {
  const std::string body = " " + std::string(key) + "=" + std::string(value) + "\n";
  std::size_t length = body.size() + 1;
  while (std::to_string(length).size() + body.size() != length) length = std::to_string(length).size() + body.size();
  return std::to_string(length) + body;
}

}  // namespace

void read_tar(std::span<const std::byte> archive, const fs::path& path,
              const std::function<void(const TarMember&)>& use) {
  TarReader(archive, path).read(use);
}

std::string tar_header(const std::string& name, std::uint64_t size) {
  const bool fits = name.size() <= kName.length && size <= kLargestOctalSize;
  if (fits) return plain_header(name, size, '0');
  const std::string records = pax_record("path", name) + pax_record("size", std::to_string(size));
  return plain_header("pax", records.size(), 'x') + records + tar_padding(records.size()) +
         plain_header(name.substr(0, kName.length), std::min(size, kLargestOctalSize), '0');
}

std::string tar_padding(std::uint64_t size) {
  return std::string((kTarBlock - size % kTarBlock) % kTarBlock, '\0');
}

std::string tar_end() {
  return std::string(2 * kTarBlock, '\0');
}

}  // namespace trainctl::dataset
