#include "pretrained/torch_storages.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/error.h"

namespace trainctl::pretrained {
namespace {

struct TorchType {
  std::string_view storage;  // class of its typed storage
  std::string_view dtype;
  at::ScalarType type;
};
constexpr std::array<TorchType, 20> kTypes{{
    {"DoubleStorage", "float64", at::kDouble},
    {"FloatStorage", "float32", at::kFloat},
    {"HalfStorage", "float16", at::kHalf},
    {"BFloat16Storage", "bfloat16", at::kBFloat16},
    {"LongStorage", "int64", at::kLong},
    {"IntStorage", "int32", at::kInt},
    {"ShortStorage", "int16", at::kShort},
    {"CharStorage", "int8", at::kChar},
    {"ByteStorage", "uint8", at::kByte},
    {"BoolStorage", "bool", at::kBool},
    {"ComplexDoubleStorage", "complex128", at::kComplexDouble},
    {"ComplexFloatStorage", "complex64", at::kComplexFloat},
    {"UntypedStorage", "", at::kByte},
    {"", "uint64", at::kUInt64},
    {"", "uint32", at::kUInt32},
    {"", "uint16", at::kUInt16},
    {"", "float8_e4m3fn", at::kFloat8_e4m3fn},
    {"", "float8_e5m2", at::kFloat8_e5m2},
    {"", "float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
    {"", "float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
}};

constexpr std::size_t kMostDims = 64;  // LibTorch's limit
constexpr std::string_view kRebuild = "torch._utils _rebuild_tensor";
constexpr std::string_view kRebuild2 = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kRebuild3 = "torch._utils _rebuild_tensor_v3";
constexpr std::string_view kParameter = "torch._utils _rebuild_parameter";

/// Returns a global's name in the modules where PyTorch has its types; else "".
std::string_view name_in_torch(std::string_view global) {
  for (const std::string_view module : {"torch ", "torch.storage "})
    if (global.starts_with(module)) return global.substr(module.size());
  return "";
}

const TorchType* find_type(std::string_view global, std::string_view TorchType::*name) {
  const std::string_view wanted = name_in_torch(global);
  if (wanted.empty()) return nullptr;
  const auto* const found = std::ranges::find_if(kTypes, [&](const TorchType& type) { return type.*name == wanted; });
  return found == kTypes.end() ? nullptr : found;
}

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw core::Error("tensor " + shown(name) + ": " + what);
}

std::int64_t integer(const Pickle& pickle, PickleId id, const std::string& name) {
  if (pickle[id].kind != PickleKind::integer) fail(name, "a size, stride or offset that is no number");
  return pickle[id].integer;
}

std::vector<std::int64_t> integers(const Pickle& pickle, PickleId id, const std::string& name) {
  const PickleValue* list = &pickle[id];
  if (pickle.is_call(id, "torch Size")) {  // whose only argument is a tuple
    const std::vector<PickleId>& arguments = pickle[list->items[1]].items;
    if (arguments.size() != 1) fail(name, "a torch.Size of other things than a tuple");
    list = &pickle[arguments[0]];
  }
  if (list->kind != PickleKind::list || list->items.size() > kMostDims)
    fail(name, "sizes or strides that are no tuple of at most " + std::to_string(kMostDims) + " numbers");
  std::vector<std::int64_t> numbers;
  for (const PickleId item : list->items) numbers.push_back(integer(pickle, item, name));
  return numbers;
}

/// A tensor's place in its storage, in elements.
struct Layout {
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

/// Refuses a tensor that reaches beyond its storage, and one that repeats elements to have more than the storage.
void check_layout(const Layout& layout, std::int64_t available, const std::string& name) {
  const std::optional<std::int64_t> count = core::checked_product(layout.sizes);
  if (!count || layout.offset < 0 || layout.sizes.size() != layout.strides.size())
    fail(name, "sizes and strides that make no tensor");
  std::int64_t end = layout.offset;  // of the last element, which may be the first
  for (std::size_t dim = 0; dim < layout.sizes.size(); ++dim) {
    const std::int64_t steps = std::max<std::int64_t>(layout.sizes[dim] - 1, 0);
    std::int64_t reach = 0;
    if (layout.strides[dim] < 0 || __builtin_mul_overflow(steps, layout.strides[dim], &reach) ||
        __builtin_add_overflow(end, reach, &end))
      fail(name, "strides that are negative or too large");
  }
  if (*count > 0 && (end >= available || *count > available))
    fail(name, std::to_string(*count) + " elements, of which the last is element " + std::to_string(end) +
                   " of a storage; the storage has " + std::to_string(available));
}

/// Refuses bools other than 0 and 1, which are undefined behavior later on.
void check_bools(const std::byte* data, std::uint64_t size, const std::string& name) {
  if (std::any_of(data, data + size, [](std::byte value) { return value > std::byte{1}; }))
    fail(name, "a value that is neither true nor false");
}

}  // namespace

bool is_tensor_global(std::string_view global) {
  constexpr std::array<std::string_view, 20> kKnown = {kRebuild,
                                                       kRebuild2,
                                                       kRebuild3,
                                                       kParameter,
                                                       "collections OrderedDict",
                                                       "torch Size",
                                                       "torch device",
                                                       "torch.serialization _get_layout",
                                                       "_codecs encode",
                                                       "builtins set",
                                                       "builtins frozenset",
                                                       "builtins list",
                                                       "builtins dict",
                                                       "builtins tuple",
                                                       "builtins bytearray",
                                                       "builtins complex",
                                                       "__builtin__ set",
                                                       "__builtin__ list",
                                                       "__builtin__ dict",
                                                       "__builtin__ bytearray"};
  return std::ranges::find(kKnown, global) != kKnown.end() || find_type(global, &TorchType::storage) != nullptr ||
         find_type(global, &TorchType::dtype) != nullptr;
}

StorageRef storage_of(const Pickle& pickle, PickleId id) {
  const PickleValue& persistent = pickle[id];
  const auto bad = [] { return core::Error("the pickle refers to an object that is no storage"); };
  if (persistent.kind != PickleKind::persistent) throw bad();
  const std::vector<PickleId>& parts = pickle[persistent.items[0]].items;
  if (parts.size() < 5 || pickle[parts[0]].text != "storage" || pickle[parts[1]].kind != PickleKind::global ||
      pickle[parts[2]].kind != PickleKind::text || pickle[parts[4]].kind != PickleKind::integer)
    throw bad();
  if (parts.size() > 5 && pickle[parts[5]].kind != PickleKind::none)
    throw core::Error("storages that are parts of others, as PyTorch before 0.4 wrote them, aren't read");
  const TorchType* const type = find_type(pickle[parts[1]].text, &TorchType::storage);
  if (type == nullptr) throw bad();
  StorageRef storage{.key = pickle[parts[2]].text, .dtype = type->type, .num_elements = pickle[parts[4]].integer};
  const auto bytes =
      core::checked_product({storage.num_elements, static_cast<std::int64_t>(c10::elementSize(storage.dtype))});
  if (!bytes) throw core::Error("storage " + shown(storage.key) + " has a size that is negative or too large");
  storage.num_bytes = static_cast<std::uint64_t>(*bytes);
  return storage;
}

bool TorchStorages::is_tensor(const Pickle& pickle, PickleId id) {
  const auto is = [&](std::string_view global) { return pickle.is_call(id, global); };
  return is(kRebuild) || is(kRebuild2) || is(kRebuild3) || is(kParameter);
}

TorchStorages::Memory TorchStorages::memory(const StorageRef& storage) {
  const auto range = ranges_.find(storage.key);
  if (range == ranges_.end()) throw core::Error("storage " + shown(storage.key) + " isn't in the file");
  if (range->second.size != storage.num_bytes)
    throw core::Error("storage " + shown(storage.key) + " takes " + std::to_string(range->second.size) +
                      " bytes in the file, and " + std::to_string(storage.num_bytes) + " by its description");
  std::byte* const data = file_->writable_bytes().data() + range->second.begin;
  constexpr std::uintptr_t kLargestElement = 16;
  if (reinterpret_cast<std::uintptr_t>(data) % kLargestElement == 0) return {data, file_};
  const auto [found, is_new] = copies_.try_emplace(storage.key);
  if (is_new) {
    const auto copy = std::make_shared<std::vector<std::byte>>(data, data + storage.num_bytes);
    found->second = {copy->data(), copy};
  }
  return found->second;
}

at::Tensor TorchStorages::tensor(const Pickle& pickle, PickleId id, const std::string& name) {
  const auto arguments = [&] { return pickle[pickle[id].items[1]].items; };
  if (pickle.is_call(id, kParameter)) {
    if (arguments().empty()) fail(name, "a parameter without a tensor");
    id = arguments()[0];
  }
  if (!is_tensor(pickle, id) || pickle.is_call(id, kParameter)) fail(name, "a parameter of something else");
  const std::vector<PickleId> parts = arguments();
  const bool has_dtype = pickle.is_call(id, kRebuild3);
  if (parts.size() < (has_dtype ? 7 : 4)) fail(name, "a tensor without sizes");
  const StorageRef storage = storage_of(pickle, parts[0]);
  at::ScalarType dtype = storage.dtype;
  if (has_dtype) {
    const TorchType* const type = find_type(pickle[parts[6]].text, &TorchType::dtype);
    if (type == nullptr || type->dtype.empty()) fail(name, "unknown type " + shown(pickle[parts[6]].text));
    dtype = type->type;
  } else if (parts.size() > 6 && !pickle[parts[6]].items.empty()) {
    fail(name, "a tensor that is kept conjugated or negated");
  }
  const Layout layout{.offset = integer(pickle, parts[1], name),
                      .sizes = integers(pickle, parts[2], name),
                      .strides = integers(pickle, parts[3], name)};
  const std::uint64_t element = c10::elementSize(dtype);
  check_layout(layout, static_cast<std::int64_t>(storage.num_bytes / element), name);
  const Memory bytes = memory(storage);
  if (dtype == at::kBool && checked_bools_.insert(storage.key).second) check_bools(bytes.data, storage.num_bytes, name);
  const bool is_empty = std::ranges::find(layout.sizes, 0) != layout.sizes.end();
  std::byte* const data = is_empty ? bytes.data : bytes.data + static_cast<std::uint64_t>(layout.offset) * element;
  return at::from_blob(
      data, layout.sizes, layout.strides, [owner = bytes.owner](void*) {}, at::TensorOptions(dtype).device(at::kCPU));
}

}  // namespace trainctl::pretrained
