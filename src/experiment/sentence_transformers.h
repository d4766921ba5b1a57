// What a directory of the package sentence-transformers says of the values that follow the network.
#pragma once

#include <filesystem>
#include <optional>

#include "experiment/published_keys.h"

namespace trainctl::experiment {

/// Keys of `model` and the file that gives them.
struct SentencePooling {
  std::filesystem::path file;
  std::vector<PublishedKey> keys;
};

/// Reads modules.json and the pooling's config.json; nothing if the directory has no modules.json. A module or a
/// pooling that no key of `model` expresses is an Error.
std::optional<SentencePooling> read_sentence_pooling(const std::filesystem::path& directory);

}  // namespace trainctl::experiment
