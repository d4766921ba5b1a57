#include "tokenizer/formats/class_pipeline.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "tokenizer/formats/side_files.h"
#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer {
namespace {

constexpr const char* kQwenSplit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Tokens that are put around a text.
struct TokensAround {
  std::vector<std::string> before{};
  std::vector<std::string> behind{};
  bool operator==(const TokensAround&) const = default;
};

Json part_of(const Json& document, const char* key) {
  const auto found = document.find(key);
  return found == document.end() ? Json() : *found;
}

/// Adds what a post-processor puts around a single text.
void add_tokens_around(const Json& step, TokensAround& around) {
  if (step.is_null()) return;
  const Json type = step.value("type", Json());
  if (type == "Sequence")
    for (const Json& one : step.at("processors")) add_tokens_around(one, around);
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    around.before.push_back(step.at("cls").at(0).get<std::string>());
    around.behind.push_back(step.at("sep").at(0).get<std::string>());
  }
  if (type != "TemplateProcessing") return;
  bool is_before = true;
  for (const Json& piece : step.at("single")) {
    if (!piece.contains("SpecialToken")) {
      is_before = false;
      continue;
    }
    (is_before ? around.before : around.behind).push_back(piece.at("SpecialToken").at("id").get<std::string>());
  }
}

/// Removes what doesn't change the ids, and adds what older files leave out.
Json comparable(Json step) {
  if (!step.is_object()) return step;
  if (step.contains("pretokenizers"))
    for (Json& one : step["pretokenizers"]) one = comparable(one);
  if (step.contains("normalizers"))
    for (Json& one : step["normalizers"]) one = comparable(one);
  step.erase("trim_offsets");
  if (step.value("type", Json()) == "ByteLevel" && !step.contains("use_regex")) step["use_regex"] = true;
  if (step.value("type", Json()) == "Metaspace") step.erase("add_prefix_space");
  return step;
}

Json byte_level(const Json& config, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", config.value("add_prefix_space", Json()) == true},
          {"use_regex", use_regex}};
}

/// Returns the options of a model that classes set, as a file means them that leaves them out.
const Json& model_defaults() {
  static const Json kDefaults = {{"unk_token", nullptr},
                                 {"fuse_unk", false},
                                 {"byte_fallback", false},
                                 {"continuing_subword_prefix", "##"},
                                 {"max_input_chars_per_word", 100U}};
  return kDefaults;
}

/// What a class builds around the vocabulary and the merges.
struct ClassPipeline {
  Json normalizer;
  Json pre_tokenizer;
  Json decoder;
  Json model;  // options, without type, vocabulary and merges
};

Json replace(const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

/// Returns none for classes that take tokenizer.json as it is, and for those that aren't known here.
std::optional<ClassPipeline> pipeline_of(const std::string& name, const Json& config) {
  const Json bytes = {{"type", "ByteLevel"}};
  const Json bpe = {{"unk_token", nullptr}, {"fuse_unk", false}, {"byte_fallback", false}};
  if (name == "BertTokenizer") {
    const std::string unknown = named_token(config, "unk_token").value_or("[UNK]");
    return ClassPipeline{
        {{"type", "BertNormalizer"},
         {"clean_text", true},
         {"handle_chinese_chars", config.value("tokenize_chinese_chars", Json(true))},
         {"strip_accents", config.value("strip_accents", Json())},
         {"lowercase", config.value("do_lower_case", Json(true))}},
        {{"type", "BertPreTokenizer"}},
        {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
        {{"unk_token", unknown}, {"continuing_subword_prefix", "##"}, {"max_input_chars_per_word", 100U}}};
  }
  if (name == "GPT2Tokenizer" || name == "CodeGenTokenizer" || name == "RobertaTokenizer")
    return ClassPipeline{nullptr, byte_level(config, true), bytes, bpe};
  if (name == "GPTNeoXTokenizer") return ClassPipeline{{{"type", "NFC"}}, byte_level(config, true), bytes, bpe};
  if (name == "Qwen2Tokenizer") {
    const Json split = {
        {"type", "Split"}, {"pattern", {{"Regex", kQwenSplit}}}, {"behavior", "Isolated"}, {"invert", false}};
    return ClassPipeline{
        {{"type", "NFC"}}, {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(config, false)}}}, bytes, bpe};
  }
  Json pieces = {replace("\u2581", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  Json fallback = {{"unk_token", nullptr}, {"fuse_unk", true}, {"byte_fallback", true}};
  if (name == "LlamaTokenizer") {
    const bool has_prefix = config.value("add_prefix_space", Json()) != false;
    const bool is_legacy = config.value("legacy", Json()) == true;
    if (has_prefix) pieces.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
    return ClassPipeline{nullptr,
                         {{"type", "Metaspace"},
                          {"replacement", "\u2581"},
                          {"prepend_scheme", !has_prefix ? "never"
                                             : is_legacy ? "always"
                                                         : "first"},
                          {"split", false}},
                         {{"type", "Sequence"}, {"decoders", pieces}},
                         fallback};
  }
  if (name == "GemmaTokenizer") {
    fallback["unk_token"] = named_token(config, "unk_token").value_or("<unk>");
    return ClassPipeline{
        replace(" ", "\u2581"),
        {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}},
        {{"type", "Sequence"}, {"decoders", pieces}},
        fallback};
  }
  return std::nullopt;
}

/// Classes of transformers 5.17 that read other files, or build a pipeline which isn't known here.
constexpr std::array<std::string_view, 84> kOtherClasses = {"AlbertTokenizer",
                                                            "BarthezTokenizer",
                                                            "BartphoTokenizer",
                                                            "BertGenerationTokenizer",
                                                            "BertJapaneseTokenizer",
                                                            "BertweetTokenizer",
                                                            "BigBirdTokenizer",
                                                            "BioGptTokenizer",
                                                            "BlenderbotSmallTokenizer",
                                                            "BlenderbotTokenizer",
                                                            "ByT5Tokenizer",
                                                            "CLIPTokenizer",
                                                            "CTRLTokenizer",
                                                            "CamembertTokenizer",
                                                            "CanineTokenizer",
                                                            "ClvpTokenizer",
                                                            "CodeLlamaTokenizer",
                                                            "CohereTokenizer",
                                                            "ConvBertTokenizer",
                                                            "CpmAntTokenizer",
                                                            "CpmTokenizer",
                                                            "DPRContextEncoderTokenizer",
                                                            "DPRQuestionEncoderTokenizer",
                                                            "DPRReaderTokenizer",
                                                            "DebertaTokenizer",
                                                            "DebertaV2Tokenizer",
                                                            "DiaTokenizer",
                                                            "EsmTokenizer",
                                                            "EsmcTokenizer",
                                                            "FNetTokenizer",
                                                            "FSMTTokenizer",
                                                            "FastSpeech2ConformerTokenizer",
                                                            "FlaubertTokenizer",
                                                            "FunnelTokenizer",
                                                            "GPTNeoXJapaneseTokenizer",
                                                            "GPTSw3Tokenizer",
                                                            "HerbertTokenizer",
                                                            "LasrTokenizer",
                                                            "LayoutLMv2Tokenizer",
                                                            "LayoutLMv3Tokenizer",
                                                            "LayoutXLMTokenizer",
                                                            "LukeTokenizer",
                                                            "M2M100Tokenizer",
                                                            "MBart50Tokenizer",
                                                            "MBartTokenizer",
                                                            "MLukeTokenizer",
                                                            "MPNetTokenizer",
                                                            "MarianTokenizer",
                                                            "MarkupLMTokenizer",
                                                            "MgpstrTokenizer",
                                                            "MyT5Tokenizer",
                                                            "NllbTokenizer",
                                                            "NougatTokenizer",
                                                            "OpenAIGPTTokenizer",
                                                            "PLBartTokenizer",
                                                            "PegasusTokenizer",
                                                            "PerceiverTokenizer",
                                                            "PhobertTokenizer",
                                                            "Pop2PianoTokenizer",
                                                            "ProphetNetTokenizer",
                                                            "Qwen3_5Tokenizer",
                                                            "RagTokenizer",
                                                            "ReformerTokenizer",
                                                            "RemBertTokenizer",
                                                            "RoCBertTokenizer",
                                                            "RoFormerTokenizer",
                                                            "SeamlessM4TTokenizer",
                                                            "Siglip2Tokenizer",
                                                            "SiglipTokenizer",
                                                            "Speech2TextTokenizer",
                                                            "SpeechT5Tokenizer",
                                                            "SplinterTokenizer",
                                                            "TapasTokenizer",
                                                            "Tipsv2Tokenizer",
                                                            "UdopTokenizer",
                                                            "VideoPrismTokenizer",
                                                            "VitsTokenizer",
                                                            "Wav2Vec2CTCTokenizer",
                                                            "Wav2Vec2PhonemeCTCTokenizer",
                                                            "WhisperTokenizer",
                                                            "XGLMTokenizer",
                                                            "XLMRobertaTokenizer",
                                                            "XLMTokenizer",
                                                            "XLNetTokenizer"};

/// Makes of a document what a class of transformers makes of it.
class Remaking {
 public:
  Remaking(Json& document, const Json& config, const std::string& name, const std::filesystem::path& path)
      : document_(document), config_(config), name_(name), path_(path) {}

  void run() {
    if (std::ranges::find(kOtherClasses, name_) != kOtherClasses.end())
      refuse("its class doesn't take this file as it is, and what it makes of it isn't known here");
    if (const std::optional<ClassPipeline> made = pipeline_of(name_, config_)) {
      check_model();
      put_added();
      put("normalizer", made->normalizer);
      put("pre_tokenizer", made->pre_tokenizer);
      put("decoder", made->decoder);
      put_model(made->model);
    }
    put_around();
  }

 private:
  std::string content(const char* key, const std::string& usual) const {
    return needed_token(config_, key, usual, path_);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw core::Error(path_.string() + ": " + what +
                      (name_.empty() ? "" : ", and transformers reads this directory with " + name_))
        .hint(
            "set tokenizer_class in tokenizer_config.json to PreTrainedTokenizerFast to take tokenizer.json as it is");
  }

  /// Replaces a part that differs in more than what doesn't change the ids.
  void put(const char* key, const Json& made) {
    if (comparable(part_of(document_, key)) != comparable(made)) document_[key] = made;
  }

  /// Returns whether the vocabulary has a token of each byte, so that no text is unknown.
  bool has_all_bytes(bool as_fallback) const {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const Json& vocabulary = document_.at("model").at("vocab");
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char one = static_cast<char>(byte);
      const std::string fallback = std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">";
      if (!vocabulary.contains(as_fallback ? fallback : bytes_to_chars({&one, 1}))) return false;
    }
    return true;
  }

  void put_model(const Json& options) {
    const bool is_complete = !is_of_bert() && has_all_bytes(options.at("byte_fallback").get<bool>());
    for (const auto& [key, value] : options.items())
      if (!is_complete || key == "byte_fallback") put_option(key, value);
  }

  /// Replaces an option of the model, unless the file leaves it out and the option has its default.
  void put_option(const std::string& key, const Json& made) {
    Json& model = document_.at("model");
    const Json otherwise = is_of_bert() && key == "unk_token" ? Json("[UNK]") : model_defaults().at(key);
    if (model.value(key, otherwise) != made) model[key] = made;
  }

  void check_model() const {
    const Json& model = document_.at("model");
    if (is_of_bert()) {
      const bool is_older_form = !model.contains("type") && model.contains("continuing_subword_prefix");
      if (!is_older_form && part_of(model, "type") != "WordPiece") refuse("the model isn't WordPiece");
      return;
    }
    const auto is_blank = [&](const char* key) { return part_of(model, key).is_null() || part_of(model, key) == ""; };
    const bool is_plain = model.value("type", Json("BPE")) == "BPE" && is_blank("continuing_subword_prefix") &&
                          is_blank("end_of_word_suffix") && part_of(model, "ignore_merges") != true;
    if (!is_plain) refuse("the model isn't plain BPE");
  }

  /// A class takes the flags of added_tokens_decoder in the place of tokenizer.json's.
  void put_added() {
    const auto decoder = config_.find("added_tokens_decoder");
    if (decoder == config_.end() || !document_.contains("added_tokens")) return;
    for (Json& token : document_["added_tokens"]) {
      const auto found = decoder->find(std::to_string(token.at("id").get<std::int64_t>()));
      if (found == decoder->end() || found->value("content", Json()) != token.at("content"))
        refuse("the added token " + token.at("content").dump() + " is missing in added_tokens_decoder");
      token.update(*found);
    }
  }

  void put_around() {
    if (is_of_roberta()) return put_around_of_roberta();
    TokensAround found;
    add_tokens_around(part_of(document_, "post_processor"), found);
    std::optional<TokensAround> made;
    if (is_of_bert())
      made = {{content("cls_token", "[CLS]")}, {content("sep_token", "[SEP]")}};
    else if (name_ == "GPTNeoXTokenizer")
      made = TokensAround{};
    if (made && found != *made) document_["post_processor"] = template_of(*made);
  }

  void put_around_of_roberta() {
    const std::string begin = content("cls_token", "<s>");
    const std::string end = content("sep_token", "</s>");
    const Json made = {{"type", "RobertaProcessing"},
                       {"sep", {end, id_of(end)}},
                       {"cls", {begin, id_of(begin)}},
                       {"trim_offsets", config_.value("trim_offsets", Json(true))},
                       {"add_prefix_space", config_.value("add_prefix_space", Json()) == true}};
    if (part_of(document_, "post_processor") != made) document_["post_processor"] = made;
  }

  std::uint64_t id_of(const std::string& token) const {
    const Json& vocabulary = document_.at("model").at("vocab");
    if (vocabulary.is_object() && vocabulary.contains(token)) return vocabulary.at(token).get<std::uint64_t>();
    for (const Json& added : part_of(document_, "added_tokens"))
      if (added.at("content") == token) return added.at("id").get<std::uint64_t>();
    refuse("the vocabulary has no token '" + token + "', which is put around texts");
  }

  /// Writes what is put around one text, and around each of two.
  Json template_of(const TokensAround& around) const {
    Json single = Json::array();
    Json second = Json::array();
    Json tokens = Json::object();
    const auto add = [&](const std::string& token, bool is_in_second) {
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0U}}}});
      if (is_in_second) second.push_back({{"SpecialToken", {{"id", token}, {"type_id", 1U}}}});
      tokens[token] = {{"id", token}, {"ids", {id_of(token)}}, {"tokens", {token}}};
    };
    // BERT's second text begins behind the first one's end.
    for (const std::string& token : around.before) add(token, !is_of_bert());
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0U}}}});
    second.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1U}}}});
    for (const std::string& token : around.behind) add(token, true);
    Json pair = single;
    for (const Json& piece : second) pair.push_back(piece);
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
  }
  bool is_of_bert() const { return name_ == "BertTokenizer"; }
  bool is_of_roberta() const { return name_ == "RobertaTokenizer"; }

  Json& document_;
  const Json& config_;
  const std::string& name_;
  const std::filesystem::path& path_;
};

}  // namespace

std::string take_pipeline_of_class(Json& document, const Json& config, const std::string& tokenizer_class,
                                   const std::filesystem::path& path) {
  if (!document.is_object() || !document.contains("model") || !document["model"].is_object()) return "";
  const auto parts = [&] {
    Json all;
    for (const char* key : {"normalizer", "pre_tokenizer", "post_processor"}) all.push_back(part_of(document, key));
    for (const auto& [key, value] : model_defaults().items()) all.push_back(part_of(document["model"], key.c_str()));
    return all.dump();
  };
  const std::string before = parts();
  const Json added = part_of(document, "added_tokens");
  try {
    Remaking(document, config, tokenizer_class, path).run();
  } catch (const Json::exception& error) {
    throw core::Error(path.string() + " has another form than tokenizers writes: " + error.what());
  }
  std::string after = parts();
  if (part_of(document, "added_tokens") != added) after += part_of(document, "added_tokens").dump();
  return before == after ? "" : after;
}

void require_plain_special_tokens(const std::vector<AddedToken>& added, const std::string& tokenizer_class,
                                  const std::filesystem::path& path) {
  if (tokenizer_class != "Qwen2Tokenizer") return;
  for (const AddedToken& token : added)
    if (token.special && (token.left_strip || token.right_strip || token.single_word || token.normalized))
      throw core::Error(path.string() + ": the special token '" + token.content +
                        "' has lstrip, rstrip, single_word or normalized, which Qwen2Tokenizer drops")
          .hint(std::string(kSaveAsJson));
}

}  // namespace trainctl::tokenizer
