// A store's directory in the cache: found, or made by one process while the others wait.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "dataset/prepare.h"
#include "dataset/text/store/source_checksums.h"
#include "dataset/text/store/store_writer.h"
#include "dataset/text/store/token_store.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::dataset {

/// All that decides on a store's content beside its files, as one text.
class Reading {
 public:
  explicit Reading(const tokenizer::Tokenizer& tokenizer) : text_(tokenizer.fingerprint() + " ") {}

  template <class Option>
  Reading& add(Option option) requires std::is_enum_v<Option> {
    text_ += std::string(config::name_of(option)) + " ";
    return *this;
  }
  Reading& add(std::int64_t number) {
    text_ += std::to_string(number) + " ";
    return *this;
  }
  /// With its size, so that two texts never read as one.
  Reading& add(const std::string& text) {
    text_ += std::to_string(text.size()) + ":" + text + " ";
    return *this;
  }
  Reading& add_labels(const std::vector<std::string>& labels) {
    text_ += "labels ";
    for (const std::string& label : labels) add(label);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// What a store is made of, and how.
struct StoreSpec {
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
PreparedStore prepare_store(const StoreSpec& recipe, const std::filesystem::path& cache_dir,
                            const PrepareOptions& options);

}  // namespace trainctl::dataset
