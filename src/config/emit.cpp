#include "config/emit.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "config/characters.h"
#include "core/utf8.h"

namespace trainctl::config {
namespace {

constexpr std::array<std::string_view, 14> kReserved = {"true", "false", "null", "yes", "no",  "on",   "off",
                                                        "y",    "n",     "auto", "inf", "nan", "none", "base"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Returns whether every YAML reader takes these characters as the text itself, without quotes.
bool is_plain_text(std::string_view text) {
  if (text.empty() || text.size() > 4096 || !(is_letter(text[0]) || text[0] == '/' || text[0] == '_')) return false;
  for (const char c : text)
    if (!is_letter(c) && !is_digit(c) && std::string_view("_-./+").find(c) == std::string_view::npos) return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(kReserved.begin(), kReserved.end(), lower) == kReserved.end();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const std::string_view character = text.substr(at, core::sequence_at_front(text.substr(at)).length);
    if (is_no_text(character)) {
      char escape[16];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(core::decode_at(text, at).code));
      out += escape;
      at += character.size() - 1;
    } else if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escape;
    } else
      out += c;
  }
  return out + "\"";
}

/// Returns the scalar's text. A plain scalar stays unquoted, as quotes would make a number a text; other texts are
/// quoted if needed.
std::string scalar_text(const Node& node) {
  const bool is_safe =
      node.style == ScalarStyle::quoted
          ? is_plain_text(node.text)
          : node.text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+") ==
                    std::string::npos &&
                !node.text.empty() && node.text != "-" && node.text.find("---") != 0 && node.text != "...";
  return is_safe ? node.text : quoted(node.text);
}

class Emitter {
 public:
  explicit Emitter(Comments comments) : comments_(comments) {}

  std::string take() { return std::move(out_); }

  /// Writes a mapping. `lead` stands before the first key: the indent, or a list item's "- ".
  void mapping(const Node& node, std::string_view lead, std::size_t indent) {
    bool first = true;
    for (const Node::Entry& entry : node.entries) {
      out_ += first ? std::string(lead) : std::string(indent, ' ');
      first = false;
      out_ += scalar_text(Node::scalar(entry.key, ScalarStyle::quoted)) + ":";
      value(entry.value, indent);
    }
  }

  void value(const Node& node, std::size_t indent) {
    if (is_inline(node)) return line(" " + emit_inline(node), node);
    out_ += '\n';
    if (node.kind == NodeKind::mapping) return mapping(node, std::string(indent + 2, ' '), indent + 2);
    sequence(node, indent + 2);
  }

  void sequence(const Node& node, std::size_t indent) {
    for (const Node& item : node.items) {
      const std::string lead = std::string(indent, ' ') + "- ";
      if (is_inline(item)) {
        out_ += lead;
        line(emit_inline(item), item);
      } else if (item.kind == NodeKind::mapping) {
        mapping(item, lead, indent + 2);
      } else {
        out_ += std::string(indent, ' ') + "-\n";
        sequence(item, indent + 2);
      }
    }
  }

  void line(const std::string& text, const Node& node) {
    out_ += text;
    if (comments_ == Comments::origins) out_ += "  # " + comment(node.origin);
    out_ += '\n';
  }

 private:
  /// Returns the origin as a comment: file and line. Characters that would end the comment become blanks.
  static std::string comment(const Origin& origin) {
    std::string text =
        origin.kind == OriginKind::file ? origin.source + ":" + std::to_string(origin.line) : origin.text();
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
    return text;
  }

  Comments comments_;
  std::string out_;
};

}  // namespace

bool is_inline(const Node& node) {
  if (node.kind == NodeKind::mapping) return node.entries.empty();
  return std::all_of(node.items.begin(), node.items.end(),
                     [](const Node& item) { return item.kind == NodeKind::scalar || item.kind == NodeKind::null; });
}

std::string emit_inline(const Node& node) {
  switch (node.kind) {
    case NodeKind::null:
      return "null";
    case NodeKind::scalar:
      return scalar_text(node);
    case NodeKind::mapping:
      return "{}";
    case NodeKind::sequence:
      break;
  }
  std::string text = "[";
  for (const Node& item : node.items) text += (text.size() > 1 ? ", " : "") + emit_inline(item);
  return text + "]";
}

std::string emit(const Node& root, Comments comments) {
  Emitter emitter(comments);
  if (is_inline(root))
    emitter.line(emit_inline(root), root);
  else if (root.kind == NodeKind::mapping)
    emitter.mapping(root, "", 0);
  else
    emitter.sequence(root, 0);
  return emitter.take();
}

}  // namespace trainctl::config
