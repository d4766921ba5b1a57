// Values of Python's pickle format as data. Nothing runs: a call is recorded, and never made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::pretrained {

/// persistent: an object outside the pickle, such as a storage. call: a global with its arguments.
enum class PickleKind {
  none,
  boolean,
  integer,
  long_integer,
  real,
  text,
  bytes,
  list,
  set,
  dict,
  global,
  call,
  persistent
};

/// The number of a value in its Pickle. Values refer to each other by number, so that no depth or cycle can overflow a
/// stack.
using PickleId = std::uint32_t;

struct PickleValue {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0;  // of booleans too
  double real = 0;
  std::string text{};  // also "module name" of globals, and the bytes of long integers
  std::vector<PickleId>
      items{};  // of lists and tuples; a dict's keys and values in turn; a call's global and arguments
};

struct Pickle {
  std::vector<PickleValue> values;
  PickleId root = 0;
  std::size_t num_bytes = 0;  // up to the end of the pickle

  const PickleValue& operator[](PickleId id) const { return values[id]; }
  /// Returns whether the value is a call of this global ("torch._utils _rebuild_tensor_v2").
  bool is_call(PickleId id, std::string_view global) const;
};

/// Tells whether a global ("module name") may be in the pickle.
using IsAllowed = std::function<bool(std::string_view global)>;

/// Reads the pickle at the beginning of `bytes`, of protocol 2 to 5. Memory is bounded by a multiple of the pickle's
/// size, and refused beyond some hundred MiB. Throws Error for a global that isn't allowed, and for damage.
Pickle read_pickle(std::span<const std::byte> bytes, const IsAllowed& is_allowed);

/// Returns text of a file for a message: short, without control characters.
std::string shown(std::string_view text);

}  // namespace trainctl::pretrained
