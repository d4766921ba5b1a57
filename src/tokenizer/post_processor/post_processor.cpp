#include "tokenizer/post_processor/post_processor.h"

#include <algorithm>

#include "core/utf8.h"
#include "tokenizer/post_processor/truncate.h"

namespace trainctl::tokenizer {
namespace {

void append_special(Encoding& to, std::uint32_t id, std::int32_t type_id) {
  to.ids.push_back(static_cast<std::int32_t>(id));
  to.type_ids.push_back(type_id);
  to.offsets.push_back({0, 0});
  to.words.push_back(-1);
  to.is_special.push_back(1);
}

/// Removes leading and trailing spaces from tokens' offsets.
class TrimOffsets final : public PostProcessor {
 public:
  explicit TrimOffsets(bool add_prefix_space) : add_prefix_space_(add_prefix_space) {}
  void process(std::vector<PartEncoding>& parts, SpecialTokens) const override {
    for (PartEncoding& part : parts)
      for (std::size_t i = 0; i < part.spaces.size(); ++i) trim(part.encoding.offsets[i], part.spaces[i], i == 0);
  }
  std::int64_t num_added(std::size_t) const override { return 0; }
  bool trims_offsets() const override { return true; }

 private:
  void trim(TextRange& range, const TokenSpaces& spaces, bool is_first) const {
    auto leading = static_cast<std::int32_t>(spaces.leading);
    const auto trailing = static_cast<std::int32_t>(spaces.trailing);
    // A single space before the first token is the added prefix, so it stays.
    if ((is_first || range.begin == 0) && add_prefix_space_ && leading == 1) leading = 0;
    if (leading > 0) range.begin = std::min(range.begin + leading, range.end);
    if (trailing > 0 && range.end >= trailing) range.end = std::max(range.end - trailing, range.begin);
  }
  bool add_prefix_space_;
};

struct TemplatePiece {
  enum class What { first, second, special } what;
  std::int32_t type_id;
  std::vector<std::uint32_t> ids{};  // ids of a special token
};
using Template = std::vector<TemplatePiece>;

class TemplateProcessing final : public PostProcessor {
 public:
  TemplateProcessing(Template single, Template pair) : single_(std::move(single)), pair_(std::move(pair)) {}
  void process(std::vector<PartEncoding>& parts, SpecialTokens special_tokens) const override {
    Encoding result;
    for (const TemplatePiece& piece : parts.size() == 1 ? single_ : pair_) {
      if (piece.what == TemplatePiece::What::special) {
        if (special_tokens == SpecialTokens::add)
          for (const std::uint32_t id : piece.ids) append_special(result, id, piece.type_id);
        continue;
      }
      Encoding& text = parts[piece.what == TemplatePiece::What::first ? 0 : 1].encoding;
      std::fill(text.type_ids.begin(), text.type_ids.end(), piece.type_id);
      append_encoding(result, text);
    }
    parts.resize(1);
    parts[0] = {std::move(result), {}};
  }
  std::int64_t num_added(std::size_t num_texts) const override {
    std::size_t sum = 0;
    for (const TemplatePiece& piece : num_texts == 1 ? single_ : pair_) sum += piece.ids.size();
    return static_cast<std::int64_t>(sum);
  }
  bool is_template() const override { return true; }

 private:
  Template single_, pair_;
};

class SequencePostProcessor final : public PostProcessor {
 public:
  explicit SequencePostProcessor(std::vector<std::unique_ptr<PostProcessor>> steps) : steps_(std::move(steps)) {}
  void process(std::vector<PartEncoding>& parts, SpecialTokens special_tokens) const override {
    for (const auto& step : steps_) step->process(parts, special_tokens);
  }
  std::int64_t num_added(std::size_t num_texts) const override {
    std::int64_t sum = 0;
    for (const auto& step : steps_) sum += step->num_added(num_texts);
    return sum;
  }
  bool trims_offsets() const override {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->trims_offsets(); });
  }
  bool is_template() const override {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->is_template(); });
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> steps_;
};

using What = TemplatePiece::What;

Template read_template(const JsonCursor& json, const JsonCursor& special_tokens, std::size_t num_texts) {
  Template result;
  for (const JsonCursor& part : json.list()) {
    TemplatePiece piece{What::special, 0};
    const bool is_text = part.has("Sequence");
    if (!is_text && !part.has("SpecialToken")) throw part.error("expected a Sequence or a SpecialToken");
    const JsonCursor body = part.at(is_text ? "Sequence" : "SpecialToken");
    piece.type_id = static_cast<std::int32_t>(body.at("type_id").id());
    const std::string id = body.text("id");
    if (is_text) {
      if (id != "A" && !(id == "B" && num_texts == 2))
        throw body.error("unknown text '" + id + "'; expected A, or B in a pair");
      piece.what = id == "A" ? What::first : What::second;
    } else {
      for (const JsonCursor& number : special_tokens.at(id).at("ids").list()) piece.ids.push_back(number.id());
    }
    result.push_back(std::move(piece));
  }
  return result;
}

/// Reads the id of ["[SEP]", 102].
std::uint32_t read_named(const JsonCursor& json) {
  const std::vector<JsonCursor> both = json.list();
  if (both.size() != 2) throw json.error("expected a token and its id");
  return both[1].id();
}

std::unique_ptr<PostProcessor> read_roberta(const JsonCursor& json) {
  const std::vector<std::uint32_t> cls{read_named(json.at("cls"))}, sep{read_named(json.at("sep"))};
  std::vector<std::unique_ptr<PostProcessor>> steps;
  if (json.flag_or("trim_offsets", true))
    steps.push_back(std::make_unique<TrimOffsets>(json.flag_or("add_prefix_space", true)));
  steps.push_back(std::make_unique<TemplateProcessing>(
      Template{{What::special, 0, cls}, {What::first, 0}, {What::special, 0, sep}}, Template{{What::special, 0, cls},
                                                                                             {What::first, 0},
                                                                                             {What::special, 0, sep},
                                                                                             {What::special, 0, sep},
                                                                                             {What::second, 0},
                                                                                             {What::special, 0, sep}}));
  return std::make_unique<SequencePostProcessor>(std::move(steps));
}

std::unique_ptr<PostProcessor> read_sequence(const JsonCursor& json) {
  std::vector<std::unique_ptr<PostProcessor>> steps;
  bool has_template = false;
  for (const JsonCursor& part : json.at("processors").list()) {
    auto step = read_post_processor(part);
    if (step == nullptr) continue;
    if (has_template && step->is_template()) throw part.error("a second template cannot follow the first");
    // Templates leave the offsets of the text's tokens unchanged, so trimming may run before the template.
    const auto place = has_template && !step->is_template() ? steps.begin() : steps.end();
    has_template = has_template || step->is_template();
    steps.insert(place, std::move(step));
  }
  return std::make_unique<SequencePostProcessor>(std::move(steps));
}

/// Post-processor that does nothing.
class Nothing final : public PostProcessor {
  void process(std::vector<PartEncoding>&, SpecialTokens) const override {}
  std::int64_t num_added(std::size_t) const override { return 0; }
};

}  // namespace

TokenSpaces token_spaces(std::string_view token, const Characters& characters) {
  constexpr char32_t kSpaceChar = 0x120;  // Ġ
  const auto is_space = [&](char32_t code) { return code == kSpaceChar || characters.is(code, Kind::space); };
  TokenSpaces spaces;
  for (std::size_t at = 0; at < token.size() && is_space(core::decode_at(token, at).code);
       at += core::char_length(token[at]))
    ++spaces.leading;
  for (std::size_t end = token.size(); end > 0 && is_space(core::decode_before(token, end).code);
       end -= core::decode_before(token, end).length)
    ++spaces.trailing;
  return spaces;
}

std::unique_ptr<PostProcessor> bert_template(std::uint32_t cls, std::uint32_t sep) {
  const std::vector<std::uint32_t> c{cls}, s{sep};
  return std::make_unique<TemplateProcessing>(
      Template{{What::special, 0, c}, {What::first, 0}, {What::special, 0, s}},
      Template{
          {What::special, 0, c}, {What::first, 0}, {What::special, 0, s}, {What::second, 1}, {What::special, 1, s}});
}

std::unique_ptr<PostProcessor> begin_template(std::uint32_t begin) {
  const std::vector<std::uint32_t> b{begin};
  return std::make_unique<TemplateProcessing>(
      Template{{What::special, 0, b}, {What::first, 0}},
      Template{{What::special, 0, b}, {What::first, 0}, {What::special, 1, b}, {What::second, 1}});
}

std::unique_ptr<PostProcessor> read_post_processor(const JsonCursor& json) {
  if (json.value().is_null()) return nullptr;
  const std::string type = json.type();
  if (type == "Sequence") return read_sequence(json);
  if (type == "BertProcessing") return bert_template(read_named(json.at("cls")), read_named(json.at("sep")));
  if (type == "RobertaProcessing") return read_roberta(json);
  if (type == "ByteLevel") {
    if (!json.flag_or("trim_offsets", true)) return std::make_unique<Nothing>();
    return std::make_unique<TrimOffsets>(json.flag_or("add_prefix_space", true));
  }
  if (type == "TemplateProcessing") {
    const JsonCursor special = json.at("special_tokens");
    return std::make_unique<TemplateProcessing>(read_template(json.at("single"), special, 1),
                                                read_template(json.at("pair"), special, 2));
  }
  throw json.error("unknown post-processor '" + type + "'");
}

}  // namespace trainctl::tokenizer
