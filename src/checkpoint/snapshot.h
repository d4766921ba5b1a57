// What one rank writes: a copy, on the host, of its share of the state.
#pragma once

#include <map>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

namespace trainctl::checkpoint {

/// The writers of a stretch that several ranks hold: each rank writes its share (shared), or all of it (each).
enum class Copies { shared, each };

/// Which rank writes what all of them have: they take equal numbers of bytes.
struct Division {
  std::int64_t index = 0;
  std::int64_t count = 1;
  Copies copies = Copies::shared;
};

struct Snapshot {
  struct Copy {
    Dims shape;  // of the whole
    Dims order;
    std::int64_t offset = 0;
    at::Tensor data;  // contiguous, on the host
    runtime::ElementRuns runs{};
  };
  std::map<std::string, Copy> tensors;
  StateValues values;
  std::int64_t elements_of_all = 0;  // that all ranks have
  std::int64_t elements_of_own = 0;  // that this rank has, its share of copies
};

/// The owner of a snapshot's values. With own, the tensors of the state may change once copy_state() has returned. With
/// lent, the snapshot shares host memory that is already in the order of the file. Such tensors must not change while
/// the snapshot lives.
enum class Lifetime { own, lent };
Snapshot copy_state(const ShownState& state, const Division& division, Lifetime lifetime);

/// Writes the snapshot into safetensors files, and returns their manifest. With an empty `part`, writes
/// model.safetensors and state.safetensors, which other programs load as they are. Else writes `<part>.safetensors`, in
/// which a piece of a tensor is flat and has its offset in its name.
Manifest write_tensors(const std::filesystem::path& directory, const Snapshot& snapshot, const std::string& part,
                       core::Durability durability);
FileSums write_text(const std::filesystem::path& path, const std::string& text, core::Durability durability);

}  // namespace trainctl::checkpoint
