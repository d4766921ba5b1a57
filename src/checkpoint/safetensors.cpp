#include "checkpoint/safetensors.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/mapped_file.h"

namespace trainctl::checkpoint {
namespace {

constexpr std::pair<std::string_view, at::ScalarType> kNames[] = {
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U64", at::kUInt64},
    {"U32", at::kUInt32},
    {"U16", at::kUInt16},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"F8_E8M0", at::kFloat8_e8m0fnu},
};

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the official reader's limit
constexpr std::size_t kMaxDims = 64;               // LibTorch's limit

struct Entry {
  std::string name;
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin;
  std::uint64_t end;
};

class Reader {
 public:
  explicit Reader(std::filesystem::path path)
      : path_(std::move(path)), mapping_(std::make_shared<core::MappedFile>(path_, core::MapAccess::copy_on_write)) {}

  TensorMap read() {
    TensorMap tensors;
    for (const Entry& each : entries()) tensors.emplace(each.name, tensor(each));
    return tensors;
  }

  std::vector<StoredTensor> list() {
    std::vector<StoredTensor> tensors;
    for (const Entry& each : entries())
      tensors.push_back({each.name, each.dtype, each.shape, data_begin_ + each.begin, each.end - each.begin});
    return tensors;
  }

 private:
  std::vector<Entry> entries() {
    std::vector<Entry> entries;
    const nlohmann::json listed = header();
    for (const auto& [name, json] : listed.items()) {
      if (name == "__metadata__")
        check_metadata(json);
      else
        entries.push_back(entry(name, json));
    }
    check_tiling(entries);
    return entries;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw core::Error(path_.string() + " is not a valid safetensors file: " + what);
  }
  [[noreturn]] void fail(const std::string& tensor, const std::string& what) const {
    fail("tensor " + tensor.substr(0, 200) + ": " + what);
  }

  /// Refuses files of torch.save: a zip archive or, before PyTorch 1.6, a pickle, which begins with its protocol
  /// number.
  void refuse_pickle() const {
    const std::string_view begin(reinterpret_cast<const char*>(mapping_->bytes().data()), 4);
    if (!begin.starts_with("PK\x03\x04") && !begin.starts_with("\x80\x02")) return;
    throw core::Error(path_.string() + " was written by torch.save; expected a safetensors file")
        .hint("model.init_from and --checkpoint read files of torch.save");
  }

  /// Returns the parsed header and sets data_begin_.
  nlohmann::json header() {
    std::uint64_t length = 0;
    if (mapping_->bytes().size() < sizeof length)
      fail("got " + std::to_string(mapping_->bytes().size()) + " bytes, the header's length alone takes 8");
    std::memcpy(&length, mapping_->writable_bytes().data(), sizeof length);
    if (length > kMaxHeader || length > mapping_->bytes().size() - sizeof length) refuse_pickle();
    if (length > kMaxHeader)
      fail("header length " + std::to_string(length) + " at byte 0 is over " + std::to_string(kMaxHeader));
    if (length > mapping_->bytes().size() - sizeof length)
      fail("header length " + std::to_string(length) + " at byte 0 overruns the file of " +
           std::to_string(mapping_->bytes().size()) + " bytes");
    data_begin_ = sizeof length + length;
    const auto* const text = reinterpret_cast<const char*>(mapping_->writable_bytes().data()) + sizeof length;
    nlohmann::json json = parse(text, text + length);
    if (!json.is_object()) fail("the header is not a JSON object");
    return json;
  }

  /// Parses with a limited depth, since a malicious header could take a hundred times its size in memory.
  nlohmann::json parse(const char* begin, const char* end) const {
    using Event = nlohmann::json::parse_event_t;
    // nlohmann passes over the mark, and takes a zero byte for the text's end.
    if (std::string_view(begin, end).starts_with("\xef\xbb\xbf")) fail("the header begins with a byte order mark");
    if (std::find(begin, end, '\0') != end) fail("the header has a zero byte");
    std::set<std::string> names;
    std::string name;
    std::set<std::string> keys;  // of the tensor with this name
    const auto watch = [&](int depth, Event event, nlohmann::json& parsed) {
      if (depth > 4) fail("the header nests too deep");
      if (event == Event::key && depth == 1) {
        name = parsed.get<std::string>();
        keys.clear();
        if (!names.insert(name).second) fail(name, "listed twice in the header");
      }
      if (event == Event::key && depth == 2 && !keys.insert(parsed.get<std::string>()).second)
        fail(name, "has " + parsed.get<std::string>() + " twice");
      return true;
    };
    try {
      return nlohmann::json::parse(begin, end, watch);
    } catch (const nlohmann::json::exception& error) {
      fail(std::string("the header is not JSON: ") + core::as_error(error).what());
    }
  }

  void check_metadata(const nlohmann::json& json) const {
    const bool are_texts =
        json.is_null() || (json.is_object() &&
                           std::all_of(json.begin(), json.end(), [](const auto& value) { return value.is_string(); }));
    if (!are_texts) fail("__metadata__ has values that are no texts");
  }

  std::vector<std::uint64_t> numbers(const std::string& name, const nlohmann::json& json, const char* key) const {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_array()) fail(name, std::string("no list of numbers as ") + key);
    std::vector<std::uint64_t> list;
    for (const nlohmann::json& item : *found) {
      if (!item.is_number_unsigned()) fail(name, std::string(key) + " holds a value that is not a count");
      list.push_back(item.get<std::uint64_t>());
    }
    return list;
  }

  Entry entry(const std::string& name, const nlohmann::json& json) const {
    if (!json.is_object()) fail(name, "the entry is not an object");
    const auto dtype_name = json.find("dtype");
    if (dtype_name == json.end() || !dtype_name->is_string()) fail(name, "no dtype");
    const auto dtype = safetensors_dtype(dtype_name->get<std::string>());
    if (!dtype) fail(name, "unknown dtype " + dtype_name->get<std::string>().substr(0, 40));
    const std::vector<std::uint64_t> offsets = numbers(name, json, "data_offsets");
    if (offsets.size() != 2) fail(name, "data_offsets are not two numbers");
    const std::uint64_t available = mapping_->bytes().size() - data_begin_;
    if (offsets[0] > offsets[1] || offsets[1] > available)
      fail(name, "bytes " + std::to_string(offsets[0]) + " to " + std::to_string(offsets[1]) +
                     " overrun the data, which has " + std::to_string(available) + " bytes from offset " +
                     std::to_string(data_begin_));
    Entry entry{name, *dtype, {}, offsets[0], offsets[1]};
    entry.shape = shape(entry, numbers(name, json, "shape"));
    return entry;
  }

  std::vector<std::int64_t> shape(const Entry& entry, const std::vector<std::uint64_t>& dims) const {
    if (dims.size() > kMaxDims) fail(entry.name, "has over " + std::to_string(kMaxDims) + " dims");
    // Strides are products too; they take dims as at least 1.
    std::int64_t product = static_cast<std::int64_t>(c10::elementSize(entry.dtype));
    bool is_empty = false;
    for (const std::uint64_t dim : dims) {
      is_empty |= dim == 0;
      if (__builtin_mul_overflow(product, std::max<std::uint64_t>(dim, 1), &product))
        fail(entry.name, "the shape is too large");
    }
    const std::uint64_t bytes = is_empty ? 0 : static_cast<std::uint64_t>(product);
    if (bytes != entry.end - entry.begin)
      fail(entry.name, "the shape takes " + std::to_string(bytes) + " bytes, the range (at byte " +
                           std::to_string(data_begin_ + entry.begin) + ") has " +
                           std::to_string(entry.end - entry.begin));
    return {dims.begin(), dims.end()};
  }

  /// Checks that the ranges cover the data without overlaps or holes.
  void check_tiling(std::vector<Entry>& entries) const {
    std::ranges::sort(entries, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
    std::uint64_t covered = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != covered)
        fail(entry.name, std::string(entry.begin < covered ? "overlaps another" : "leaves a hole before it") +
                             " at byte " + std::to_string(data_begin_ + entry.begin));
      covered = entry.end;
    }
    if (data_begin_ + covered != mapping_->bytes().size())
      fail("the tensors end at byte " + std::to_string(data_begin_ + covered) + ", the file at " +
           std::to_string(mapping_->bytes().size()));
  }

  at::Tensor tensor(const Entry& entry) const {
    std::byte* const data = mapping_->writable_bytes().data() + data_begin_ + entry.begin;
    if (entry.dtype == at::kBool) check_bools(entry, data);
    const at::TensorOptions options = at::TensorOptions(entry.dtype).device(at::kCPU);
    const std::size_t element = c10::elementSize(entry.dtype);
    if (reinterpret_cast<std::uintptr_t>(data) % element == 0)
      return at::from_blob(
          data, entry.shape, [keep = mapping_](void*) {}, options);
    auto copy = std::make_shared<std::vector<std::byte>>(data, data + (entry.end - entry.begin));
    return at::from_blob(
        copy->data(), entry.shape, [copy](void*) {}, options);
  }

  /// Checks bools: a value other than 0 or 1 is undefined behavior later on.
  void check_bools(const Entry& entry, const std::byte* data) const {
    const std::byte* const end = data + (entry.end - entry.begin);
    const std::byte* const bad = std::find_if(data, end, [](std::byte value) { return value > std::byte{1}; });
    if (bad != end)
      fail(entry.name, "neither true nor false at byte " + std::to_string(bad - mapping_->writable_bytes().data()));
  }

  std::filesystem::path path_;
  std::shared_ptr<core::MappedFile> mapping_;  // kept alive by the tensors
  std::uint64_t data_begin_ = 0;
};

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

std::string write_in_order(const std::filesystem::path& path, const TensorMap& tensors, const std::string& head,
                           const std::vector<StoredTensor>& order, core::Durability durability) {
  core::FileWriter writer(path);
  core::Checksum sum;
  const auto put = [&](std::span<const std::byte> bytes) {
    sum.update(bytes);
    writer.write(bytes);
  };
  put(std::as_bytes(std::span(head)));
  for (const StoredTensor& stored : order) {
    const at::Tensor rows = tensors.at(stored.name).detach().cpu().resolve_neg().contiguous();
    put({static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()});
  }
  writer.close(durability);
  return sum.digest();
}

}  // namespace

std::string_view safetensors_name(at::ScalarType dtype) {
  for (const auto& [name, known] : kNames)
    if (known == dtype) return name;
  return "";
}

std::optional<at::ScalarType> safetensors_dtype(std::string_view name) {
  for (const auto& [known, dtype] : kNames)
    if (known == name) return dtype;
  return std::nullopt;
}

TensorMap read_safetensors(const std::filesystem::path& path) {
  return Reader(path).read();
}

std::vector<StoredTensor> list_safetensors(const std::filesystem::path& path) {
  return Reader(path).list();
}

std::string lay_out_safetensors(std::vector<StoredTensor>& tensors, const std::map<std::string, std::string>& metadata,
                                const std::filesystem::path& path) {
  for (const StoredTensor& tensor : tensors)
    if (safetensors_name(tensor.dtype).empty() || tensor.name == "__metadata__")
      throw core::Error("cannot write " + path.string() + ": safetensors has no place for tensor " + tensor.name +
                        " of dtype " + c10::toString(tensor.dtype));
  // Largest elements first, then as they came: every tensor begins at a multiple of its element's size.
  std::ranges::stable_sort(tensors, std::ranges::greater{},
                           [](const StoredTensor& tensor) { return c10::elementSize(tensor.dtype); });
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    json[tensor.name] = {{"dtype", safetensors_name(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, offset + tensor.size}}};
    offset += tensor.size;
  }
  std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data begins at a multiple of 8
  const std::uint64_t length = text.size();
  std::string head(reinterpret_cast<const char*>(&length), sizeof length);
  head += text;
  std::uint64_t begin = head.size();
  for (StoredTensor& tensor : tensors) {
    tensor.begin = begin;
    begin += tensor.size;
  }
  return head;
}

std::string write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata, core::Durability durability) {
  std::vector<StoredTensor> order;
  for (const auto& [name, tensor] : tensors) {
    core::ensure(tensor.defined(), "an undefined tensor is written: " + name);
    if (tensor.layout() != at::kStrided)
      throw core::Error("cannot write " + path.string() + ": safetensors has no place for tensor " + name +
                        ", a sparse one");
    order.push_back({.name = name,
                     .dtype = tensor.scalar_type(),
                     .shape = {tensor.sizes().begin(), tensor.sizes().end()},
                     .size = tensor.nbytes()});
  }
  const std::string head = lay_out_safetensors(order, metadata, path);
  try {
    return write_in_order(path, tensors, head, order, durability);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
}

}  // namespace trainctl::checkpoint
