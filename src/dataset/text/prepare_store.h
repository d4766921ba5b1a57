// A store's directory in the cache: found, or made by one process while the others wait.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataset/prepare.h"
#include "dataset/text/source_checksums.h"
#include "dataset/text/store_writer.h"
#include "dataset/text/token_store.h"

namespace trainctl {

/// What a store is made of, and how.
struct StoreRecipe {
  std::vector<std::string> files;  // whose content is in it
  std::string reading;             // all else that decides on its content
  StoreLayout layout;
  std::function<void(StoreWriter&)> write;
};

struct PreparedStore {
  std::shared_ptr<const TokenStore> store;
  std::filesystem::path directory;
  Preparation outcome = Preparation::found;
  double seconds = 0;
};

/// A damaged store is made anew, and that is told.
PreparedStore prepare_store(const StoreRecipe& recipe, const std::filesystem::path& cache_dir,
                            const PrepareOptions& options);

}  // namespace trainctl
