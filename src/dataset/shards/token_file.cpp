#include "dataset/shards/token_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "dataset/widen.h"

namespace trainctl::dataset {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

// https://github.com/karpathy/llm.c, dev/data/data_common.py
constexpr std::size_t kLlmcHeaderBytes = 1024;
constexpr std::int32_t kLlmcGpt2 = 20240520;    // version 1, uint16
constexpr std::int32_t kLlmcLlama3 = 20240801;  // version 7, uint32

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kMostNpyHeader = 1 << 16;

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// Returns the text after `'key':` in a .npy header, up to the comma or brace that ends it.
std::string_view npy_value(std::string_view header, std::string_view key) {
  const std::size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos) return {};
  std::string_view value = header.substr(at + key.size() + 2);
  value.remove_prefix(std::min(value.find_first_not_of(": "), value.size()));
  const bool is_tuple = value.starts_with('(');
  return value.substr(0, is_tuple ? value.find(')') : value.find_first_of(",}"));
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, TokenDtype raw_ids) : path_(path), file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::int32_t magic = bytes.size() >= 4 ? load<std::int32_t>(bytes, 0) : 0;
  if (text.starts_with(kNpyMagic))
    read_npy_header();
  else if (ends_in_any_case(path.string(), ".npy"))
    throw core::Error(path.string() + " is no .npy file: it doesn't begin with \\x93NUMPY");
  else if (magic == kLlmcGpt2 || magic == kLlmcLlama3)
    read_llmc_header();
  else
    set_ids(raw_ids == TokenDtype::uint16 ? Width::u16 : Width::u32, 0);
  if (num_tokens_ < 1) throw core::Error(path.string() + " has no tokens");
}

std::size_t TokenFile::id_bytes() const {
  switch (width_) {
    case Width::u8:
      return 1;
    case Width::u16:
      return 2;
    case Width::u32:
    case Width::i32:
      return 4;
    case Width::u64:
      return 8;
  }
  return 1;
}

void TokenFile::set_ids(Width width, std::size_t offset) {
  width_ = width;
  offset_ = offset;
  const std::size_t left = file_.bytes().size() - offset;
  if (left % id_bytes() != 0)
    throw core::Error(path_.string() + " has " + core::format_count(left) + " bytes of ids" +
                      (offset > 0 ? " after its header" : "") + ", which are no multiple of " +
                      std::to_string(id_bytes()))
        .hint(offset > 0 ? "the file was cut short; get it again"
                         : "was it cut short, or does dataset.token_dtype say the wrong size?");
  num_tokens_ = static_cast<std::int64_t>(left / id_bytes());
}

void TokenFile::read_llmc_header() {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kLlmcHeaderBytes)
    throw core::Error(path_.string() +
                      " has llm.c's magic number, but ends inside the header of 1,024 bytes, at byte " +
                      core::format_count(bytes.size()));
  const bool llama = load<std::int32_t>(bytes, 0) == kLlmcLlama3;
  const auto version = load<std::int32_t>(bytes, 4);
  const auto promised = static_cast<std::int64_t>(load<std::uint32_t>(bytes, 8));
  if (version != (llama ? 7 : 1))
    throw core::Error(path_.string() + ": llm.c's version " + std::to_string(version) +
                      " at byte 4 isn't known; it should be " + (llama ? "7" : "1"));
  set_ids(llama ? Width::u32 : Width::u16, kLlmcHeaderBytes);
  if (promised != num_tokens_)
    throw core::Error(path_.string() + ": its header promises " + core::format_count(promised) +
                      " tokens (byte 8), but " + core::format_count(num_tokens_) + " follow")
        .hint("the file was cut short, or written to twice; get it again");
}

/// Reads the header (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
void TokenFile::read_npy_header() {
  const std::span<const std::byte> bytes = file_.bytes();
  const auto fail = [&](const std::string& what) { return core::Error(path_.string() + ": " + what); };
  if (bytes.size() < 12) throw fail("the .npy header ends at byte " + core::format_count(bytes.size()));
  const bool long_header = std::to_integer<int>(bytes[6]) >= 2;
  const std::size_t begin = long_header ? 12 : 10;
  const std::size_t length = long_header ? load<std::uint32_t>(bytes, 8) : load<std::uint16_t>(bytes, 8);
  if (length > kMostNpyHeader || length > bytes.size() - begin)
    throw fail("the .npy header should have " + core::format_count(length) + " bytes, more than follow");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + begin, length);
  const std::string descr(npy_value(header, "descr"));
  const std::string_view shape = npy_value(header, "shape");
  struct Kind {
    std::string_view descr;
    Width width;
  };
  static constexpr Kind kKinds[] = {{"'|u1'", Width::u8},  {"'<u2'", Width::u16}, {"'<u4'", Width::u32},
                                    {"'<i4'", Width::i32}, {"'<u8'", Width::u64}, {"'<i8'", Width::u64}};
  const auto* kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.descr == descr; });
  if (kind == std::end(kKinds))
    throw fail("its values are " + (descr.empty() ? "of unknown type" : descr) + ", not token ids")
        .hint("save them as uint16, uint32, int32 or int64, little-endian");
  std::int64_t promised = -1;
  std::string_view digits = shape.starts_with('(') ? shape.substr(1) : shape;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), promised);
  digits.remove_prefix(static_cast<std::size_t>(end - digits.data()));
  if (problem != std::errc() || digits.find_first_not_of(", ") != std::string_view::npos)
    throw fail("its shape is " + std::string(shape) + "), but tokens have one dim").hint("save array.ravel()");
  set_ids(kind->width, begin + length);
  if (promised != num_tokens_)
    throw fail("its header promises " + core::format_count(promised) + " tokens, but " +
               core::format_count(num_tokens_) + " follow")
        .hint("the file was cut short; get it again");
}

void TokenFile::copy(std::int64_t begin, std::span<std::int64_t> to, std::int64_t vocab_size) const {
  const std::byte* from = file_.bytes().data() + offset_ + static_cast<std::size_t>(begin) * id_bytes();
  switch (width_) {
    case Width::u8:
      widen<std::uint8_t>(from, to);
      break;
    case Width::u16:
      widen<std::uint16_t>(from, to);
      break;
    case Width::u32:
      widen<std::uint32_t>(from, to);
      break;
    case Width::i32:
      widen<std::int32_t>(from, to);
      break;
    case Width::u64:
      widen<std::int64_t>(from, to);
      break;
  }
  const auto wrong = std::find_if(to.begin(), to.end(), [&](std::int64_t id) { return id < 0 || id >= vocab_size; });
  if (wrong == to.end()) return;
  const std::int64_t token = begin + (wrong - to.begin());
  throw core::Error(path_.string() + ": token " + core::format_count(token) + " (at byte " +
                    core::format_count(offset_ + static_cast<std::size_t>(token) * id_bytes()) + ") is " +
                    std::to_string(*wrong) + ", not below dataset.vocab_size, " + core::format_count(vocab_size))
      .hint("is dataset.token_dtype right, and the vocabulary that of these files?");
}

std::string TokenFile::fingerprint(const SampledHash& sample) const {
  return sample.of(path_, file_.bytes().subspan(offset_)) + " " + std::to_string(id_bytes());
}

}  // namespace trainctl::dataset
