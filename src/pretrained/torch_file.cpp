#include "pretrained/torch_file.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "pretrained/torch_storages.h"

namespace trainctl::pretrained {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kMostTensors = 200'000;
constexpr std::string_view kZip = "PK\x03\x04";
constexpr std::string_view kProtocol2 = "\x80\x02";

constexpr std::string_view kPickle = "data.pkl";

bool is_main_pickle(std::string_view record) {
  return record == kPickle || record.ends_with("/data.pkl");
}

/// Returns whether a record is of TorchScript's archives alone.
bool is_of_program(std::string_view record) {
  return record.ends_with("/constants.pkl") || record.find("/code/") != std::string_view::npos;
}

/// A file's object, and where its storages lie.
struct Content {
  Pickle pickle;
  std::map<std::string, model::FileRange> storages;
};

void check_stored(const model::FileRange& range) {
  if (!range.is_stored)
    throw core::Error("the archive's records are compressed or encrypted; expected them as torch.save stores them")
        .hint("write the file with torch.save, and not with another archiver");
}

/// Reads the archive of PyTorch 1.6 and later: NAME/data.pkl, and storages as NAME/data/KEY.
Content read_archive(const fs::path& path, Bytes file) {
  const std::map<std::string, model::FileRange> records = model::list_archive(path);
  std::optional<std::string> prefix;
  for (const auto& [name, range] : records) {
    if (is_of_program(name))
      throw core::Error("the file is a TorchScript program, of torch.jit.save; expected weights alone")
          .hint("save the weights in Python: torch.save(torch.jit.load('model.pt').state_dict(), 'weights.pth')");
    if (!is_main_pickle(name)) continue;
    if (prefix) throw core::Error("the archive has two data.pkl");
    prefix = name.substr(0, name.size() - kPickle.size());
  }
  if (!prefix) throw core::Error("the file is a zip archive without data.pkl; expected one of torch.save");
  const auto bytes_of = [&](const model::FileRange& range) {
    check_stored(range);
    return file.subspan(range.begin, range.size);
  };
  if (const auto order = records.find(*prefix + "byteorder"); order != records.end()) {
    const Bytes text = bytes_of(order->second);
    if (std::string_view(reinterpret_cast<const char*>(text.data()), text.size()) != "little")
      throw core::Error("the file was written on a big-endian machine; expected little-endian numbers");
  }
  Content content{.pickle = read_pickle(bytes_of(records.at(*prefix + std::string(kPickle))), is_tensor_global),
                  .storages = {}};
  const std::string data = *prefix + "data/";
  for (auto record = records.lower_bound(data); record != records.end() && record->first.starts_with(data); ++record) {
    check_stored(record->second);
    content.storages.emplace(record->first.substr(data.size()), record->second);
  }
  return content;
}

/// Reads what torch.save wrote before PyTorch 1.6. Five pickles are a magic number, a version, the machine, the object
/// and the storages' keys. Each storage follows as a count and its elements.
Content read_legacy(Bytes file) {
  constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
  constexpr std::int64_t kVersion = 1001;
  std::size_t position = 0;
  const auto next = [&] {
    Pickle pickle = read_pickle(file.subspan(position), is_tensor_global);
    position += pickle.num_bytes;
    return pickle;
  };
  const Pickle magic = next();
  if (magic[magic.root].text != kMagic)
    throw core::Error("the file is a pickle, but none of torch.save").hint("save model.state_dict() with torch.save");
  const Pickle version = next();
  if (version[version.root].integer != kVersion) throw core::Error("unknown version of torch.save's format");
  next();  // sizes of C's types
  Content content{.pickle = next(), .storages = {}};
  std::map<std::string, StorageRef> named;
  for (PickleId id = 0; id < content.pickle.values.size(); ++id)
    if (content.pickle[id].kind == PickleKind::persistent) {
      const StorageRef storage = storage_of(content.pickle, id);
      named.emplace(storage.key, storage);
    }
  const Pickle keys = next();
  for (const PickleId id : keys[keys.root].items) {
    const auto storage = named.find(keys[id].text);
    if (storage == named.end()) throw core::Error("storage " + shown(keys[id].text) + " is of no tensor");
    std::int64_t count = 0;
    if (file.size() - position < sizeof count) throw core::Error("the file is cut off before its storages end");
    std::memcpy(&count, file.data() + position, sizeof count);
    position += sizeof count;
    const std::uint64_t size = storage->second.num_bytes;
    if (count != storage->second.num_elements || size > file.size() - position)
      throw core::Error("storage " + shown(storage->first) + " has " + std::to_string(count) + " elements, " +
                        std::to_string(storage->second.num_elements) + " by its description, and the file has " +
                        core::format_bytes(static_cast<double>(file.size() - position)) + " left");
    content.storages.emplace(storage->first, model::FileRange{.begin = position, .size = size});
    position += size;
  }
  return content;
}

/// Returns whether a value is a dict with tensors in it.
bool has_tensors(const Pickle& pickle, PickleId id) {
  const PickleValue& dict = pickle[id];
  if (dict.kind != PickleKind::dict) return false;
  for (std::size_t i = 1; i < dict.items.size(); i += 2)
    if (TorchStorages::is_tensor(pickle, dict.items[i])) return true;
  return false;
}

std::optional<PickleId> find_key(const Pickle& pickle, PickleId id, std::string_view key) {
  const std::vector<PickleId>& items = pickle[id].items;
  for (std::size_t i = 0; i < items.size(); i += 2)
    if (pickle[items[i]].kind == PickleKind::text && pickle[items[i]].text == key) return items[i + 1];
  return std::nullopt;
}

struct StateDict {
  PickleId id = 0;
  std::string key{};     // under which the file has it; empty: the file is it
  std::string others{};  // keys of other copies, such as an average of the weights: ", not 'state_dict_ema'"
};

/// Returns the keys of other dicts of tensors beside the one that is taken.
std::string other_copies(const Pickle& pickle, PickleId taken) {
  const std::vector<PickleId>& items = pickle[pickle.root].items;
  std::string others;
  for (std::size_t i = 0; i < items.size(); i += 2)
    if (items[i + 1] != taken && pickle[items[i]].kind == PickleKind::text && has_tensors(pickle, items[i + 1]))
      others += ", not '" + shown(pickle[items[i]].text) + "'";
  return others;
}

/// Returns the model's state dict. A training checkpoint has it under a key, beside its optimizer's.
StateDict find_state_dict(const Pickle& pickle) {
  constexpr std::array<std::string_view, 7> kKeys = {"state_dict", "model_state_dict", "model", "model_state", "module",
                                                     "net",        "weights"};
  if (pickle[pickle.root].kind == PickleKind::dict) {
    for (const std::string_view key : kKeys)
      if (const std::optional<PickleId> found = find_key(pickle, pickle.root, key);
          found && has_tensors(pickle, *found))
        return {.id = *found, .key = std::string(key), .others = other_copies(pickle, *found)};
    if (has_tensors(pickle, pickle.root)) return {.id = pickle.root};
  }
  throw core::Error("the file holds no state dict: expected a dict of tensors, or one under 'state_dict' or 'model'")
      .hint("save it in Python: torch.save(model.state_dict(), 'weights.pth')");
}

/// Takes prefixes that wrappers give every name; returns them.
std::string remove_wrappers(checkpoint::TensorMap& tensors) {
  constexpr std::array<std::string_view, 2> kWrappers = {"module.", "_orig_mod."};  // DDP, torch.compile
  std::string removed;
  const auto is_of_all = [&](std::string_view prefix) {
    return !tensors.empty() &&
           std::ranges::all_of(tensors, [&](const auto& tensor) { return tensor.first.starts_with(prefix); });
  };
  constexpr int kMostWrappers = 4;
  for (int i = 0; i < kMostWrappers; ++i) {
    const auto* const prefix = std::ranges::find_if(kWrappers, is_of_all);
    if (prefix == kWrappers.end()) break;
    checkpoint::TensorMap renamed;
    for (auto& [name, tensor] : tensors) renamed.emplace(name.substr(prefix->size()), std::move(tensor));
    tensors = std::move(renamed);
    removed += *prefix;
  }
  return removed;
}

TorchFile read_content(const std::shared_ptr<core::MappedFile>& file, Content content) {
  const Pickle& pickle = content.pickle;
  const StateDict dict = find_state_dict(pickle);
  TorchStorages storages(file, std::move(content.storages));
  TorchFile read;
  const std::vector<PickleId>& items = pickle[dict.id].items;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!TorchStorages::is_tensor(pickle, items[i + 1])) continue;
    const PickleValue& name = pickle[items[i]];
    if (name.kind != PickleKind::text) throw core::Error("the file has a tensor whose name is no text");
    if (read.tensors.size() == kMostTensors)
      throw core::Error("the file has over " + core::format_count(kMostTensors) + " tensors");
    read.tensors.insert_or_assign(name.text, storages.tensor(pickle, items[i + 1], name.text));
  }
  const std::string prefix = remove_wrappers(read.tensors);
  if (!dict.key.empty()) read.note = "its '" + dict.key + "'" + dict.others;
  if (!prefix.empty()) read.note += (read.note.empty() ? "" : ", ") + ("without the prefix '" + prefix + "'");
  return read;
}

}  // namespace

bool is_torch_file(const fs::path& path) {
  // A safetensors file has its header's first brace behind eight bytes of length.
  constexpr std::size_t kLength = 8;
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable)) return false;  // a pipe would be waited for
  std::array<char, kLength + 1> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  const std::string_view text(begin.data(), static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLength && text[kLength] == '{') return false;
  return text.starts_with(kZip) || text.starts_with(kProtocol2);
}

bool is_torch_weights(const fs::path& path) {
  if (!is_torch_file(path)) return false;
  char first = 0;
  std::ifstream(path, std::ios::binary).get(first);
  if (first != kZip.front()) return true;
  try {
    const std::map<std::string, model::FileRange> records = model::list_archive(path);
    const auto any = [&](auto is) {
      return std::ranges::any_of(records, [&](const auto& record) { return is(record.first); });
    };
    return any(is_main_pickle) && !any(is_of_program);
  } catch (const core::Error&) {  // damaged: the name says what it was
    return path.extension() == ".pth" || path.extension() == ".bin";
  }
}

TorchFile read_torch_file(const fs::path& path) {
  const auto file = std::make_shared<core::MappedFile>(path, core::MapAccess::copy_on_write);
  const Bytes bytes = file->bytes();
  const bool is_archive = bytes.size() >= kZip.size() && std::memcmp(bytes.data(), kZip.data(), kZip.size()) == 0;
  try {
    return read_content(file, is_archive ? read_archive(path, bytes) : read_legacy(bytes));
  } catch (core::Error& error) {
    error.during("reading " + path.string());
    throw;
  }
}

}  // namespace trainctl::pretrained
