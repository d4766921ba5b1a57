#include "dataset/prepare.h"

#include "core/error.h"
#include "dataset/files/named_files.h"
#include "dataset/text/language_source.h"

namespace trainctl::dataset {
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

/// A visitor that appends the texts that a kind of source prepares; their names begin with `prefix`.
struct Preparing {
  const PrepareOptions& options;
  std::string prefix;
  std::vector<PreparedText>& texts;

  void operator()(const MixtureConfig& mixture) const {
    for (std::size_t i = 0; i < mixture.sources.size(); ++i)
      mixture.sources[i].source.visit(Preparing{options, "sources[" + std::to_string(i) + "].", texts});
  }
  template <class Kind>
  void operator()(const Kind& config) const {
    if constexpr (requires(const tokenizer::Tokenizer& tokenizer) { prepare_stores(config, tokenizer, options); }) {
      const Kind named = with_files_named(config);
      const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = open_tokenizer(named.tokenizer);
      PrepareOptions all = options;
      all.tests = TestTexts::prepared;
      const PreparedStores stores = prepare_stores(named, *tokenizer, all);
      texts.push_back(describe(prefix + "train", named.train, stores.train));
      if (stores.eval) texts.push_back(describe(prefix + "eval", *named.eval, *stores.eval));
      if (stores.test) texts.push_back(describe(prefix + "test", *named.test, *stores.test));
    }
  }
};

}  // namespace

std::vector<PreparedText> prepare(const SourceConfig& source, const PrepareOptions& options) {
  std::vector<PreparedText> texts;
  source.visit(Preparing{options, "", texts});
  if (texts.empty())
    throw core::Error("dataset.kind " + std::string(source.kind()) + " has no text to tokenise: nothing to prepare");
  return texts;
}

}  // namespace trainctl::dataset
