// What one rank writes: a copy, on the host, of its share of the state.
#pragma once

#include <map>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

namespace trainctl::checkpoint {

/// Of a stretch that several ranks hold, each writes its share, or all of it.
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
  };
  std::map<std::string, Copy> tensors;
  StateValues values;
  std::int64_t elements_of_all = 0;  // that all ranks have
  std::int64_t elements_of_own = 0;  // that this rank has, its share of copies
};

/// With Lifetime::own the tensors may change once it is there; what is only lent, where it lies in the host's
/// memory as it is written, must not change while the snapshot lives.
enum class Lifetime { own, lent };
Snapshot copy_state(const ShownState& state, const Division& division, Lifetime lifetime);

/// Into safetensors files: model.safetensors and state.safetensors of one who writes everything, which others load as
/// it is; else one file by the part's name, where pieces of tensors are flat and have their offset in their names.
Manifest write_tensors(const std::filesystem::path& directory, const Snapshot& snapshot, const std::string& part,
                       core::Durability durability);
FileSums write_text(const std::filesystem::path& path, const std::string& text, core::Durability durability);

}  // namespace trainctl::checkpoint
