#include "dataset/prepare.h"

#include "core/error.h"
#include "dataset/container/named_files.h"
#include "dataset/text/language_source.h"

namespace trainctl {
namespace {

template <class Files>
PreparedText describe(std::string part, const Files& files, const PreparedStore& prepared) {
  return {.part = std::move(part),
          .files = files.files,
          .directory = prepared.directory.string(),
          .outcome = prepared.outcome,
          .seconds = prepared.seconds,
          .num_tokens = prepared.store->num_tokens(),
          .num_documents = prepared.store->num_documents(),
          .num_bytes = prepared.store->num_bytes()};
}

}  // namespace

std::vector<PreparedText> prepare(const SourceConfig& source, const PrepareOptions& options) {
  return source.visit([&](const auto& written) -> std::vector<PreparedText> {
    const auto config = with_files_named(written);
    if constexpr (requires(const Tokenizer& tokenizer) { prepare_stores(config, tokenizer, options); }) {
      const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
      const PreparedStores stores = prepare_stores(config, *tokenizer, options);
      std::vector<PreparedText> parts{describe("train", config.train, stores.train)};
      if (stores.eval) parts.push_back(describe("eval", *config.eval, *stores.eval));
      return parts;
    } else {
      throw Error("dataset.kind " + std::string(config.kind) + " has no text to tokenise: nothing to prepare");
    }
  });
}

}  // namespace trainctl
