#include "tokenizer/decoder/decoder.h"

#include "core/utf8.h"
#include "tokenizer/pattern/pattern.h"
#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer {
namespace {

using Tokens = std::vector<std::string>;

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  if (what.empty()) return std::string(text);
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, done)) {
    result.append(text.substr(done, at - done)).append(with);
    done = at + what.size();
  }
  return result.append(text.substr(done));
}

std::string joined(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

/// Removes the spaces that English text does not have, as decoders do it to each token.
std::string cleaned_up(std::string text) {
  return replaced(clean_up_tokenization(std::move(text)), " do not", " don't");
}

class ByteLevelDecoder final : public Decoder {
  Tokens decode(Tokens tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += chars_to_bytes(token).value_or(token);
    return {core::replace_invalid(bytes)};
  }
};

class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  Tokens decode(Tokens tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i != 0) token = token.starts_with(prefix_) ? token.substr(prefix_.size()) : " " + token;
      if (cleanup_) token = cleaned_up(std::move(token));
    }
    return tokens;
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  MetaspaceDecoder(char32_t replacement, bool prepends) : prepends_(prepends) {
    core::append_utf8(replacement_, replacement);
  }
  Tokens decode(Tokens tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], replacement_, i == 0 && prepends_ ? "" : " ");
    return tokens;
  }

 private:
  std::string replacement_;
  bool prepends_;
};

/// Replaces the suffix that ends words by a space.
class BpeSuffix final : public Decoder {
 public:
  explicit BpeSuffix(std::string suffix) : suffix_(std::move(suffix)) {}
  Tokens decode(Tokens tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    return tokens;
  }

 private:
  std::string suffix_;
};

/// Replaces "<0x41>" by its byte. A run of such bytes that is not valid UTF-8 becomes one U+FFFD per byte.
class ByteFallback final : public Decoder {
  Tokens decode(Tokens tokens) const override {
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (core::valid_utf8(bytes))
        result.push_back(bytes);
      else
        result.insert(result.end(), bytes.size(), "\uFFFD");
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int high = digit(token, 3), low = digit(token, 4);
      if (token.size() == 6 && token.starts_with("<0x") && token[5] == '>' && high >= 0 && low >= 0) {
        bytes.push_back(static_cast<char>(high * 16 + low));
        continue;
      }
      flush();
      result.push_back(std::move(token));
    }
    flush();
    return result;
  }
  static int digit(std::string_view token, std::size_t at) {
    const char c = at < token.size() ? token[at] : '\0';
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  }
};

class Fuse final : public Decoder {
  Tokens decode(Tokens tokens) const override { return {joined(tokens)}; }
};

/// Removes up to a number of copies of a character from both ends of each token.
class StripDecoder final : public Decoder {
 public:
  StripDecoder(char32_t content, std::uint64_t start, std::uint64_t stop)
      : content_(content), start_(start), stop_(stop) {}
  Tokens decode(Tokens tokens) const override {
    for (std::string& token : tokens) {
      const std::u32string codes = core::to_utf32(token);
      std::size_t begin = 0, end = codes.size();
      while (begin < start_ && begin < codes.size() && codes[begin] == content_) ++begin;
      while (codes.size() - end < stop_ && end > begin && codes[end - 1] == content_) --end;
      token = core::to_utf8(std::u32string_view(codes).substr(begin, end - begin));
    }
    return tokens;
  }

 private:
  char32_t content_;
  std::uint64_t start_, stop_;
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(std::unique_ptr<Pattern> pattern, std::string content, std::string where)
      : pattern_(std::move(pattern)), content_(std::move(content)), where_(std::move(where)) {}
  Tokens decode(Tokens tokens) const override {
    for (std::string& token : tokens) {
      std::vector<Match> matches;
      pattern_->find(token, matches);
      refuse_growth(token.size(), matches.size() * content_.size(), where_);
      std::string result;
      std::size_t done = 0;
      for (const Match& match : matches) {
        result.append(token, done, match.begin - done).append(content_);
        done = match.end;
      }
      token = result.append(token, done);
    }
    return tokens;
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
  std::string where_;
};

/// Connectionist temporal classification: merges repeated tokens into one.
class Ctc final : public Decoder {
 public:
  Ctc(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  Tokens decode(Tokens tokens) const override {
    Tokens result;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i] == tokens[i - 1]) continue;
      std::string token = replaced(tokens[i], pad_, "");
      if (cleanup_) token = replaced(cleaned_up(std::move(token)), delimiter_, " ");
      if (!token.empty()) result.push_back(std::move(token));
    }
    return result;
  }

 private:
  std::string pad_, delimiter_;
  bool cleanup_;
};

class SequenceDecoder final : public Decoder {
 public:
  SequenceDecoder(std::vector<std::unique_ptr<Decoder>> steps, std::string where)
      : steps_(std::move(steps)), where_(std::move(where)) {}
  Tokens decode(Tokens tokens) const override {
    const std::size_t given = num_bytes(tokens);
    for (const auto& step : steps_) {
      tokens = step->decode(std::move(tokens));
      refuse_growth(given, num_bytes(tokens), where_);
    }
    return tokens;
  }

 private:
  static std::size_t num_bytes(const Tokens& tokens) {
    std::size_t bytes = 0;
    for (const std::string& token : tokens) bytes += token.size();
    return bytes;
  }

  std::vector<std::unique_ptr<Decoder>> steps_;
  std::string where_;
};

}  // namespace

std::unique_ptr<Decoder> read_decoder(const JsonCursor& json, const SharedCharacters& characters) {
  if (json.value().is_null()) return nullptr;
  const std::string type = json.type();
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Decoder>> steps;
    for (const JsonCursor& part : json.at("decoders").list())
      if (auto step = read_decoder(part, characters)) steps.push_back(std::move(step));
    return std::make_unique<SequenceDecoder>(std::move(steps), json.where());
  }
  if (type == "ByteLevel") return byte_level_decoder();
  if (type == "WordPiece")
    return std::make_unique<WordPieceDecoder>(json.text_or("prefix", "##"), json.flag_or("cleanup", true));
  if (type == "Metaspace") {
    const bool never = json.text_or("prepend_scheme", "always") == "never" || !json.flag_or("add_prefix_space", true);
    return std::make_unique<MetaspaceDecoder>(json.at("replacement").character(), !never);
  }
  if (type == "BPEDecoder") return std::make_unique<BpeSuffix>(json.text_or("suffix", "</w>"));
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip")
    return std::make_unique<StripDecoder>(json.at("content").character(), json.at("start").count(),
                                          json.at("stop").count());
  if (type == "Replace")
    return std::make_unique<ReplaceDecoder>(read_pattern(json.at("pattern"), characters), json.text("content"),
                                            json.where());
  if (type == "CTC")
    return std::make_unique<Ctc>(json.text_or("pad_token", "<pad>"), json.text_or("word_delimiter_token", "|"),
                                 json.flag_or("cleanup", true));
  throw json.error("unknown decoder '" + type + "'");
}

std::string clean_up_tokenization(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : kReplacements) text = replaced(text, what, with);
  return text;
}

std::unique_ptr<Decoder> byte_level_decoder() {
  return std::make_unique<ByteLevelDecoder>();
}

std::unique_ptr<Decoder> word_piece_decoder(std::string prefix) {
  return std::make_unique<WordPieceDecoder>(std::move(prefix), true);
}

}  // namespace trainctl::tokenizer
