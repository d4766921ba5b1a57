#include "pretrained/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "pretrained/pickle_opcodes.h"

namespace trainctl::pretrained {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kMostValues = 4'000'000;
constexpr std::uint8_t kNewestProtocol = 5;
constexpr std::string_view kOrderedDict = "collections OrderedDict";

class PickleReader {
 public:
  PickleReader(std::span<const std::byte> bytes, const IsAllowed& is_allowed)
      : bytes_(bytes.first(std::min(bytes.size(), kMostBytes))), is_allowed_(is_allowed) {}

  Pickle read() {
    while (true) {
      const auto code = number<std::uint8_t>();
      if (code == opcode::kStop) break;
      obey(code);
    }
    pickle_.root = pop();
    pickle_.num_bytes = position_;
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw core::Error("the pickle is damaged: " + what + " at byte " + std::to_string(position_));
  }

  void obey(std::uint8_t code) {
    if (!read_scalar(code) && !read_text(code) && !read_container(code) && !read_object(code)) move_on_stack(code);
  }

  bool read_scalar(std::uint8_t code) {
    const auto put = [this](PickleKind kind, std::int64_t value) {
      push({.kind = kind, .integer = value});
      return true;
    };
    switch (code) {
      case opcode::kNone:
        return put(PickleKind::none, 0);
      case opcode::kNewtrue:
        return put(PickleKind::boolean, 1);
      case opcode::kNewfalse:
        return put(PickleKind::boolean, 0);
      case opcode::kBinint:
        return put(PickleKind::integer, number<std::int32_t>());
      case opcode::kBinint1:
        return put(PickleKind::integer, number<std::uint8_t>());
      case opcode::kBinint2:
        return put(PickleKind::integer, number<std::uint16_t>());
      case opcode::kLong1:
        return push_long(number<std::uint8_t>());
      case opcode::kLong4:
        return push_long(number<std::uint32_t>());
      case opcode::kBinfloat:
        push({.kind = PickleKind::real, .real = std::bit_cast<double>(__builtin_bswap64(number<std::uint64_t>()))});
        return true;
      default:
        return false;
    }
  }

  bool push_long(std::size_t length) {
    const std::string_view digits = take(length);  // little-endian, two's complement
    if (length > sizeof(std::int64_t)) {
      push({.kind = PickleKind::long_integer, .text = std::string(digits)});
      return true;
    }
    std::int64_t value = length > 0 && (static_cast<std::uint8_t>(digits.back()) & 0x80U) != 0 ? -1 : 0;
    std::memcpy(&value, digits.data(), length);
    push({.kind = PickleKind::integer, .integer = value});
    return true;
  }

  bool read_text(std::uint8_t code) {
    const auto put = [this](PickleKind kind, std::uint64_t length) {
      push({.kind = kind, .text = std::string(take(length))});
      return true;
    };
    switch (code) {
      case opcode::kBinunicode:
      case opcode::kBinstring:  // a Python 2 string
        return put(PickleKind::text, number<std::uint32_t>());
      case opcode::kShortBinstring:
      case opcode::kShortBinunicode:
        return put(PickleKind::text, number<std::uint8_t>());
      case opcode::kBinunicode8:
        return put(PickleKind::text, number<std::uint64_t>());
      case opcode::kShortBinbytes:
        return put(PickleKind::bytes, number<std::uint8_t>());
      case opcode::kBinbytes:
        return put(PickleKind::bytes, number<std::uint32_t>());
      case opcode::kBinbytes8:
        return put(PickleKind::bytes, number<std::uint64_t>());
      default:
        return false;
    }
  }

  bool read_container(std::uint8_t code) {
    const auto put = [this](PickleKind kind, std::vector<PickleId> items) {
      push({.kind = kind, .items = std::move(items)});
      return true;
    };
    switch (code) {
      case opcode::kEmptyList:
      case opcode::kEmptyTuple:
        return put(PickleKind::list, {});
      case opcode::kEmptyDict:
        return put(PickleKind::dict, {});
      case opcode::kEmptySet:
        return put(PickleKind::set, {});
      case opcode::kTuple:
        return put(PickleKind::list, pop_to_mark());
      case opcode::kFrozenset:
        return put(PickleKind::set, pop_to_mark());
      case opcode::kTuple1:
        return put(PickleKind::list, pop_last(1));
      case opcode::kTuple2:
        return put(PickleKind::list, pop_last(2));
      case opcode::kTuple3:
        return put(PickleKind::list, pop_last(3));
      case opcode::kAppend:
        return add(PickleKind::list, pop_last(1));
      case opcode::kAppends:
        return add(PickleKind::list, pop_to_mark());
      case opcode::kSetitem:
        return add(PickleKind::dict, pop_last(2));
      case opcode::kSetitems:
        return add(PickleKind::dict, pop_to_mark());
      case opcode::kAdditems:
        return add(PickleKind::set, pop_to_mark());
      default:
        return false;
    }
  }

  /// Appends to the container on top of the stack.
  bool add(PickleKind kind, const std::vector<PickleId>& items) {
    PickleValue& target = pickle_.values[top()];
    if (target.kind != kind) fail("items for a value that is no container of their kind");
    if (kind == PickleKind::dict && items.size() % 2 != 0) fail("a key without a value");
    target.items.insert(target.items.end(), items.begin(), items.end());
    return true;
  }

  bool read_object(std::uint8_t code) {
    switch (code) {
      case opcode::kGlobal: {
        std::string global = line();
        global += ' ';
        global += line();
        return push_global(std::move(global));
      }
      case opcode::kStackGlobal: {
        const std::vector<PickleId> names = pop_last(2);
        const PickleValue& module = pickle_[names[0]];
        const PickleValue& name = pickle_[names[1]];
        if (module.kind != PickleKind::text || name.kind != PickleKind::text) fail("a global without a name");
        return push_global(module.text + ' ' + name.text);
      }
      case opcode::kReduce:
      case opcode::kNewobj:
        return push_call(pop_last(2));
      case opcode::kBuild:
        return build();
      case opcode::kBinpersid:
        push({.kind = PickleKind::persistent, .items = pop_last(1)});
        return true;
      default:
        return false;
    }
  }

  bool push_global(std::string global) {
    if (!is_allowed_(global)) {
      std::replace(global.begin(), global.end(), ' ', '.');
      throw core::Error("the file holds the Python object '" + shown(global) +
                        "'; expected tensors, numbers and text alone, since no code of a file is run")
          .hint(
              "save the weights alone, in Python and only if you trust the file: "
              "torch.save(model.state_dict(), 'weights.pth')");
    }
    push({.kind = PickleKind::global, .text = std::move(global)});
    return true;
  }

  /// An OrderedDict becomes a dict, to which items can be added.
  bool push_call(std::vector<PickleId> callee_and_arguments) {
    const PickleValue& callee = pickle_[callee_and_arguments[0]];
    const PickleValue& arguments = pickle_[callee_and_arguments[1]];
    if (callee.kind != PickleKind::global || arguments.kind != PickleKind::list)
      fail("a call of a value that is no global");
    if (callee.text != kOrderedDict) {
      push({.kind = PickleKind::call, .items = std::move(callee_and_arguments)});
      return true;
    }
    std::vector<PickleId> items;
    if (!arguments.items.empty()) {
      num_copied_ += pickle_[arguments.items[0]].items.size();
      if (num_copied_ > kMostValues) fail("over " + core::format_count(kMostValues) + " items that are copied");
      for (const PickleId pair : pickle_[arguments.items[0]].items) {
        const std::vector<PickleId>& both = pickle_[pair].items;
        if (both.size() != 2) fail("an OrderedDict of other things than pairs");
        items.insert(items.end(), both.begin(), both.end());
      }
    }
    push({.kind = PickleKind::dict, .items = std::move(items)});
    return true;
  }

  /// The attributes of a dict, such as a state dict's versions, are dropped.
  bool build() {
    pop();
    if (pickle_[top()].kind != PickleKind::dict) fail("attributes for a value that is no dict");
    return true;
  }

  void move_on_stack(std::uint8_t code) {
    switch (code) {
      case opcode::kMark:
        marks_.push_back(stack_.size());
        return;
      case opcode::kPop:
        pop();
        return;
      case opcode::kPopMark:
        pop_to_mark();
        return;
      case opcode::kDup:
        stack_.push_back(top());
        return;
      case opcode::kBinget:
        return get(number<std::uint8_t>());
      case opcode::kLongBinget:
        return get(number<std::uint32_t>());
      case opcode::kBinput:
        memo_[number<std::uint8_t>()] = top();
        return;
      case opcode::kLongBinput:
        memo_[number<std::uint32_t>()] = top();
        return;
      case opcode::kMemoize: {
        const auto next = static_cast<std::uint32_t>(memo_.size());
        memo_[next] = top();
        return;
      }
      case opcode::kFrame:
        take(sizeof(std::uint64_t));
        return;
      case opcode::kProto:
        if (const auto protocol = number<std::uint8_t>(); protocol < 2 || protocol > kNewestProtocol)
          fail("protocol " + std::to_string(protocol) + "; expected 2 to 5");
        return;
      default:
        fail("unknown or unsupported opcode " + std::to_string(code));
    }
  }

  void get(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail("memo " + std::to_string(index) + " is not set");
    stack_.push_back(found->second);
  }

  std::string_view take(std::uint64_t length) {
    if (length > bytes_.size() - position_)
      fail(bytes_.size() == kMostBytes ? "over " + core::format_bytes(kMostBytes) + " without an end"
                                       : "cut off, " + std::to_string(length) + " bytes are expected");
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data()) + position_;
    position_ += length;
    return {begin, length};
  }

  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  /// Returns the text up to the next newline.
  std::string line() {
    constexpr std::size_t kLongest = 1000;
    const std::size_t left = std::min(kLongest, bytes_.size() - position_);
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data()) + position_;
    const void* const end = left == 0 ? nullptr : std::memchr(begin, '\n', left);
    if (end == nullptr) fail("a name without an end");
    const std::string_view text = take(static_cast<std::size_t>(static_cast<const char*>(end) - begin));
    take(1);
    return std::string(text);
  }

  void push(PickleValue value) {
    if (pickle_.values.size() == kMostValues) fail("over " + core::format_count(kMostValues) + " values");
    stack_.push_back(static_cast<PickleId>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
  }

  /// Returns how many values stand above the last mark.
  std::size_t num_above_mark() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  PickleId top() const {
    if (num_above_mark() == 0) fail("nothing on the stack");
    return stack_.back();
  }

  PickleId pop() {
    const PickleId id = top();
    stack_.pop_back();
    return id;
  }

  std::vector<PickleId> pop_last(std::size_t count) {
    if (num_above_mark() < count) fail("too few values on the stack");
    return cut(stack_.size() - count);
  }

  std::vector<PickleId> pop_to_mark() {
    if (marks_.empty()) fail("no mark on the stack");
    const std::size_t from = marks_.back();
    marks_.pop_back();
    return cut(from);
  }

  std::vector<PickleId> cut(std::size_t from) {
    std::vector<PickleId> items(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    stack_.resize(from);
    return items;
  }

  std::span<const std::byte> bytes_;
  const IsAllowed& is_allowed_;
  std::size_t position_ = 0;
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::unordered_map<std::uint32_t, PickleId> memo_;
  std::size_t num_copied_ = 0;  // items of lists that became dicts
};

}  // namespace

bool Pickle::is_call(PickleId id, std::string_view global) const {
  return values[id].kind == PickleKind::call && values[values[id].items[0]].text == global;
}

Pickle read_pickle(std::span<const std::byte> bytes, const IsAllowed& is_allowed) {
  return PickleReader(bytes, is_allowed).read();
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  std::string printable(text.substr(0, kLongest));
  for (char& character : printable)
    if (static_cast<unsigned char>(character) < 0x20 || static_cast<unsigned char>(character) >= 0x7f) character = '?';
  return printable;
}

}  // namespace trainctl::pretrained
