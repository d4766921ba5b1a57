// Documents as a store: tokenised by all cores, in the order of the files.
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "dataset/text/language_source.h"
#include "dataset/text/ordered_tasks.h"
#include "dataset/text/reading/text_reader.h"
#include "dataset/text/store/split_text.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kChunkBytes = 1 << 20;

StoreChunk tokenize_part(const tokenizer::Tokenizer& tokenizer, StoreKind kind, std::string_view text) {
  StoreChunk chunk;
  if (kind == StoreKind::text_with_words) {
    tokenizer::Encoding encoding = tokenizer.encode(text, {.special_tokens = tokenizer::SpecialTokens::leave_out});
    for (std::size_t i = 0; i < encoding.ids.size(); ++i)
      chunk.word_starts.push_back(i == 0 || encoding.words[i] != encoding.words[i - 1] ? 1 : 0);
    chunk.ids = std::move(encoding.ids);
  } else {
    tokenizer.append_ids(text, chunk.ids);
  }
  chunk.num_bytes = static_cast<std::int64_t>(text.size());
  return chunk;
}

void append(StoreChunk& chunk, StoreChunk more) {
  chunk.ids.insert(chunk.ids.end(), more.ids.begin(), more.ids.end());
  chunk.word_starts.insert(chunk.word_starts.end(), more.word_starts.begin(), more.word_starts.end());
  chunk.num_bytes += more.num_bytes;
}

/// The texts that one thread tokenizes.
struct Texts {
  struct Part {
    std::string_view text;
    bool ends_document;
  };
  std::vector<Part> parts;
  std::deque<std::string> copies;  // of texts that live nowhere else
  std::vector<std::shared_ptr<const TextFile>> files;
  std::size_t num_bytes = 0;
};

class TextTokenizer {
 public:
  TextTokenizer(const tokenizer::Tokenizer& tokenizer, StoreKind kind, StoreWriter& writer)
      : tokenizer_(tokenizer), kind_(kind), tasks_([&writer](StoreChunk chunk) { writer.add(chunk); }) {}

  void add(const Document& document) {
    if (!document.file) {
      add_part(texts_.copies.emplace_back(document.text), true);
      return;
    }
    if (texts_.files.empty() || texts_.files.back() != document.file) texts_.files.push_back(document.file);
    if (document.text.size() < 2 * kChunkBytes) return add_part(document.text, true);
    const std::vector<std::string_view> parts = split_text(
        document.text, kChunkBytes, [this](std::string_view text) { return tokenize_part(tokenizer_, kind_, text); });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (texts_.files.empty()) texts_.files.push_back(document.file);  // handed over with the part before
      add_part(parts[i], i + 1 == parts.size());
    }
  }
  void finish() {
    start();
    tasks_.finish();
  }

 private:
  void add_part(std::string_view text, bool ends_document) {
    texts_.parts.push_back({text, ends_document});
    texts_.num_bytes += text.size();
    if (texts_.num_bytes >= kChunkBytes) start();
  }

  void start() {
    if (texts_.parts.empty()) return;
    // std::function copies what it holds, so the texts are shared.
    tasks_.start([this, texts = std::make_shared<const Texts>(std::exchange(texts_, {}))] { return tokenize(*texts); });
  }

  StoreChunk tokenize(const Texts& texts) const {
    const std::optional<std::int32_t> end = tokenizer_.roles().end;
    StoreChunk chunk;
    for (const Texts::Part& part : texts.parts) {
      append(chunk, tokenize_part(tokenizer_, kind_, part.text));
      if (!part.ends_document) continue;
      if (end && kind_ == StoreKind::text) chunk.ids.push_back(*end);
      chunk.document_ends.push_back(chunk.ids.size());
    }
    return chunk;
  }

  const tokenizer::Tokenizer& tokenizer_;
  StoreKind kind_;
  Texts texts_;
  OrderedTasks<StoreChunk> tasks_;
};

/// Returns all of the options that decide on the tokens, as text.
std::string reading_of(const TextFiles& files, const tokenizer::Tokenizer& tokenizer) {
  Reading reading(tokenizer);
  reading.add(files.format).add(files.document).add(files.quoting).add(files.encoding_errors);
  return reading.add(files.header_lines.value.value_or(kHeaderByContent)).add(files.text).text();
}

}  // namespace

PreparedStore prepare_text(const TextRequest& request, const PrepareOptions& options) {
  const StoreSpec recipe{.files = request.files.files,
                         .reading = reading_of(request.files, request.tokenizer),
                         .layout = {.kind = request.kind, .vocab_size = request.tokenizer.vocab_size()},
                         .write = [&](StoreWriter& writer) {
                           TextTokenizer texts(request.tokenizer, request.kind, writer);
                           read_documents(
                               request.files, [&](const Document& document) { texts.add(document); },
                               [&](const std::string& finding) { writer.add_finding(finding); });
                           texts.finish();
                         }};
  return prepare_store(recipe, request.cache_dir, options);
}

}  // namespace trainctl::dataset
