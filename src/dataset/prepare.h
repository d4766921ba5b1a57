// What `trainctl data prepare` does: text is tokenised into the cache before a run needs it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dataset/config.h"

namespace trainctl::dataset {

/// remade: what was there was damaged.
enum class Preparation { found, made, remade };

/// trust_times: files that are as old as the cache says aren't read again.
enum class Verification { trust_times, all_checksums };

/// Whether a test set's texts are tokenised, too.
enum class TestTexts { left_alone, prepared };

struct PrepareOptions {
  Verification verification = Verification::trust_times;
  TestTexts tests = TestTexts::left_alone;
  /// Told of what takes a while.
  std::function<void(const std::string&)> tell{};
};

/// One of the texts of a dataset, tokenised.
struct PreparedText {
  std::string part;  // train, eval, test; of a mixture sources[0].train, …
  std::vector<std::string> files;
  std::string directory;
  Preparation outcome = Preparation::found;
  double seconds = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_documents = 0;  // of classes: rows; of tagged text: sentences
  std::int64_t num_bytes = 0;      // of the text
};

/// Makes what isn't there. A dataset without text to tokenise is an Error.
std::vector<PreparedText> prepare(const SourceConfig& source, const PrepareOptions& options);

}  // namespace trainctl::dataset
