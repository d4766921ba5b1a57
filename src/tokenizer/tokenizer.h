// Text to token ids and back, exactly as Hugging Face's `tokenizers` does it. No LibTorch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::tokenizer {

/// The part of the text that a token stands for, in Unicode code points (as `tokenizers` gives them in Python).
struct TextRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  bool operator==(const TextRange&) const = default;
};

/// Tokens of a text or a pair of texts; all vectors are equally long.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> type_ids;    // as the file's template says: usually 1 for a pair's second text
  std::vector<TextRange> offsets;        // {0, 0} for tokens that the template added
  std::vector<std::int32_t> words;       // which pre-token of its text a token is of; -1 for those the template added
  std::vector<std::uint8_t> is_special;  // 1 for those the template added
};

/// Whether the template's special tokens (`[CLS]`, `[SEP]`, `<s>`, …) are put around the text.
enum class SpecialTokens { add, leave_out };

/// The end of a text that truncation removes.
enum class TruncationSide { left, right };

struct EncodeOptions {
  SpecialTokens special_tokens = SpecialTokens::add;
  std::optional<std::int64_t>
      max_length{};  // special tokens included; longer texts are cut at the end, unless truncation_side is left
};

/// Ids of the tokens with a role, where the vocabulary has them.
struct SpecialTokenIds {
  std::optional<std::int32_t> pad{};
  std::optional<std::int32_t> unknown{};
  std::optional<std::int32_t> begin{};  // <s>, [CLS], <|begin_of_text|>
  std::optional<std::int32_t> end{};    // </s>, [SEP], <|endoftext|>: also between documents
  std::optional<std::int32_t> mask{};
};

/// Reentrant: any number of threads may use one tokenizer at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// `text` is UTF-8; bytes that are not are read as U+FFFD, as by Python's errors="replace".
  virtual Encoding encode(std::string_view text, const EncodeOptions& options) const = 0;
  virtual Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options) const = 0;
  /// The ids alone, without the template's special tokens: the fast way, for corpora. Appends to `ids`.
  virtual void append_ids(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  virtual std::string decode(std::span<const std::int32_t> ids, SpecialTokens special_tokens) const = 0;
  /// One more than the largest id, added tokens included.
  virtual std::int64_t vocab_size() const = 0;
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  /// The token's text as in the vocabulary ("Ġthe", "##ing"); "" where the vocabulary has a gap.
  virtual std::string token_of(std::int32_t id) const = 0;
  virtual SpecialTokenIds roles() const = 0;
  virtual TruncationSide truncation_side() const = 0;
  /// Changes when any id of any text may.
  virtual std::string fingerprint() const = 0;
  /// Returns whether files beside a tokenizer.json change the ids of texts, which a program that reads it alone misses.
  virtual bool is_changed_by_side_files() const = 0;
};

/// Loads a tokenizer.json, a vocab.txt, a SentencePiece .model, a tiktoken file, or an encoder.json or vocab.json with
/// its vocab.bpe or merges.txt beside it. A vocab.txt is read as WordPiece of an uncased BERT unless
/// tokenizer_config.json beside it says otherwise. `path` may also be a directory with one of these, except a tiktoken
/// file. Beside a tokenizer.json of a Unigram model, the SentencePiece .model is taken. A component that can't be
/// followed exactly is an Error naming the component and its place in the file.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

/// Returns the class with which AutoTokenizer of transformers reads the directory of a tokenizer's file. Empty: none,
/// and a tokenizer.json is taken as it is.
std::string auto_tokenizer_class(const std::filesystem::path& file);

/// Every byte is a token (ids 0 to 255), then `<|endoftext|>` (256): needs no file.
std::unique_ptr<Tokenizer> byte_tokenizer();

}  // namespace trainctl::tokenizer
