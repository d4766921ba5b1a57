#include "exporters/gguf/gguf_file.h"

#include <bit>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace trainctl::exporters {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

constexpr std::uint64_t kGgufAlignment = 32;  // of each tensor

template <class T>
void put_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& bytes, const std::string& text) {
  put_number<std::uint64_t>(bytes, text.size());
  bytes += text;
}

/// The numbers by which the format names types of metadata.
enum class ValueKind : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, boolean = 7, text = 8, list = 9 };

template <class Item, class Put>
void put_items(std::string& bytes, ValueKind kind, const std::vector<Item>& items, const Put& put_item) {
  put_number(bytes, ValueKind::list);
  put_number(bytes, kind);
  put_number<std::uint64_t>(bytes, items.size());
  for (const Item& item : items) put_item(bytes, item);
}

struct PutValue {
  std::string& bytes;

  void operator()(bool value) const {
    put_number(bytes, ValueKind::boolean);
    put_number<std::uint8_t>(bytes, value ? 1 : 0);
  }
  void operator()(std::uint32_t value) const {
    put_number(bytes, ValueKind::u32);
    put_number(bytes, value);
  }
  void operator()(float value) const {
    put_number(bytes, ValueKind::f32);
    put_number(bytes, value);
  }
  void operator()(const std::string& value) const {
    put_number(bytes, ValueKind::text);
    put_text(bytes, value);
  }
  void operator()(const std::vector<std::string>& items) const { put_items(bytes, ValueKind::text, items, put_text); }
  void operator()(const std::vector<float>& items) const { put_items(bytes, ValueKind::f32, items, put_number<float>); }
  void operator()(const std::vector<std::int32_t>& items) const {
    put_items(bytes, ValueKind::i32, items, put_number<std::int32_t>);
  }
};

/// The number by which ggml names a type.
std::uint32_t number_of(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 1;
    case GgufType::q4_0:
      return 2;
    case GgufType::q5_0:
      return 6;
    case GgufType::q8_0:
      return 8;
    case GgufType::q4_k:
      return 12;
  }
  throw std::logic_error("unknown type");
}

std::uint64_t size_of(const at::Tensor& tensor, GgufType type) {
  const auto count = static_cast<std::uint64_t>(tensor.numel());
  switch (type) {
    case GgufType::f32:
      return count * 4;
    case GgufType::f16:
      return count * 2;
    case GgufType::q4_0:
      return count / 32 * 18;
    case GgufType::q5_0:
      return count / 32 * 22;
    case GgufType::q8_0:
      return count / 32 * 34;
    case GgufType::q4_k:
      return count / 256 * 144;
  }
  throw std::logic_error("unknown type");
}

std::uint64_t padding_of(std::uint64_t size) {
  return (kGgufAlignment - size % kGgufAlignment) % kGgufAlignment;
}

}  // namespace

std::vector<std::string> GgufFile::stored_otherwise(GgufType type) const {
  std::vector<std::string> names;
  for (const Entry& entry : tensors_)
    if (entry.tensor.dim() > 1 && entry.type != type) names.push_back(entry.name);
  return names;
}

void GgufFile::write(const std::filesystem::path& path) const {
  std::string head = "GGUF";
  put_number<std::uint32_t>(head, 3);
  put_number<std::uint64_t>(head, tensors_.size());
  put_number<std::uint64_t>(head, metadata_.size());
  for (const auto& [key, value] : metadata_) {
    put_text(head, key);
    std::visit(PutValue{head}, value);
  }
  std::uint64_t offset = 0;
  for (const Entry& entry : tensors_) {
    put_text(head, entry.name);
    put_number<std::uint32_t>(head, static_cast<std::uint32_t>(entry.tensor.dim()));
    for (std::int64_t dim = entry.tensor.dim() - 1; dim >= 0; --dim)  // the fastest first
      put_number<std::uint64_t>(head, static_cast<std::uint64_t>(entry.tensor.size(dim)));
    put_number(head, number_of(entry.type));
    put_number(head, offset);
    const std::uint64_t size = size_of(entry.tensor, entry.type);
    offset += size + padding_of(size);
  }
  head.append(padding_of(head.size()), '\0');

  const std::filesystem::path beside = path.string() + ".tmp";
  try {
    write_tensors(beside, head);
    std::filesystem::rename(beside, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw;
  }
}

void GgufFile::write_tensors(const std::filesystem::path& path, const std::string& head) const {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << head;
  for (const Entry& entry : tensors_) try {
      const std::string bytes = gguf_bytes(entry.tensor, entry.type);
      core::ensure(bytes.size() == size_of(entry.tensor, entry.type), "a tensor's bytes are as many as its type says");
      file << bytes << std::string(padding_of(bytes.size()), '\0');
    } catch (core::Error& error) {
      error.during("writing the tensor " + entry.name);
      throw;
    }
  file.close();
  if (!file) throw core::Error("cannot write " + path.string()).hint("look at the space and the rights there");
}

}  // namespace trainctl::exporters
