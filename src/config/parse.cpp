#include "config/parse.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/characters.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl::config {
namespace {

/// The reason that ends the parse: the text isn't a document.
struct Refusal {
  Origin origin;
  std::string message;
};

/// The size of the tree so far; the difference of two is the size of a subtree.
struct Size {
  std::size_t nodes = 0;
  std::size_t bytes = 0;
};

constexpr char kHiddenQuestionMark = '\xff';  // no byte of UTF-8

std::string with_question_marks(std::string text) {
  std::replace(text.begin(), text.end(), kHiddenQuestionMark, '?');
  return text;
}

/// A builder of the tree from yaml-cpp's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const Origin& origin, Problems& problems)
      : text_(text), columns_(text), last_(origin), problems_(problems) {}

  Node take() { return std::move(root_); }
  /// Returns the place of the last event.
  const Origin& last() const { return last_; }
  /// Returns the place of the innermost open bracket, if any.
  std::optional<Origin> open_bracket() const {
    if (open_.empty() || open_.back().style != YAML::EmitterStyle::Flow) return std::nullopt;
    return open_.back().node.origin;
  }
  Origin at(const YAML::Mark& mark) {
    if (last_.kind == OriginKind::file)
      last_.line = mark.line + 1, last_.column = columns_.of(mark.line, mark.column) + 1;
    return last_;
  }
  bool saw_document() const { return num_documents_ > 0; }
  /// Returns whether the last value is a text behind | or >.
  bool ends_in_block() const { return ends_in_block_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++num_documents_ > 1)
      throw Refusal{at(mark), "a second document starts here; an experiment is one document, without '---' in between"};
  }
  void OnDocumentEnd() override {}

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    });
    if (!is_plain)
      throw Refusal{at(mark), "the anchor '" + with_question_marks(name) + "' is not of letters, digits, - and _"};
    const auto [first, is_new] = anchor_lines_.emplace(name, mark.line + 1);
    if (!is_new)
      throw Refusal{at(mark), "a second anchor '" + name + "'; the first is at line " + std::to_string(first->second)};
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) throw Refusal{at(mark), "expected a key before ':'"};
    refuse_missing(mark);
    ends_in_block_ = false;
    Node node;
    node.origin = at(mark);
    grow(node.origin, 0);
    keep_anchor(anchor, node, {size_.nodes - 1, size_.bytes});
    place(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_unindented(mark);
    ends_in_block_ = false;
    const auto index = static_cast<std::size_t>(anchor);
    if (index >= anchors_.size() || !anchors_[index].complete)
      throw Refusal{at(mark), "an alias inside what it stands for"};
    const Anchored& anchored = anchors_[index];
    size_.nodes += anchored.size.nodes;
    size_.bytes += anchored.size.bytes;
    refuse_growth(at(mark));
    if (wants_key()) return take_key(mark, anchored.node);
    place(anchored.node);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& read) override {
    refuse_tag(mark, tag);
    refuse_tab(mark);
    refuse_unindented(mark);
    refuse_misread(mark);
    const std::string text = with_question_marks(read);
    // The system's calls and messages would end at it: another file would be read than the one that is named.
    if (text.find('\0') != std::string::npos)
      throw Refusal{at(mark), "a text can't have a zero byte, such as \"\\0\"; remove it"};
    Node node = Node::scalar(text, tag == "!" ? ScalarStyle::quoted : ScalarStyle::plain, at(mark));
    grow(node.origin, text.size());
    keep_anchor(anchor, node, {size_.nodes - 1, size_.bytes - text.size()});
    if (wants_key()) return take_key(mark, node);
    place(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, {.node = Node::sequence(at(mark)), .style = style});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, {.node = Node::mapping(at(mark)), .style = style});
  }
  void OnMapEnd() override { close(); }

  /// Returns whether a tab indents the line of the mark.
  bool is_indented_by_tab(const YAML::Mark& mark) const {
    const std::string_view line = line_before(mark);
    return line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
  }

 private:
  struct Open {
    Node node;
    YAML::EmitterStyle::value style;
    YAML::anchor_t anchor = 0;
    Size before = {};
    std::string key = {};  // waits for its value
    Origin key_origin = {};
    YAML::Mark key_mark = {};
    bool has_key = false;
    std::unordered_map<std::string, int> lines = {};  // of the keys so far
  };
  struct Anchored {
    Node node;
    Size size;
    bool complete = false;
  };

  bool wants_key() const {
    return !open_.empty() && open_.back().node.kind == NodeKind::mapping && !open_.back().has_key;
  }

  void grow(const Origin& origin, std::size_t bytes) {
    ++size_.nodes;
    size_.bytes += bytes;
    refuse_growth(origin);
  }

  void refuse_growth(const Origin& origin) const {
    if (size_.nodes > kMaxNodes)
      throw Refusal{origin, "over " + core::format_count(static_cast<long long>(kMaxNodes)) +
                                " keys and values, with aliases expanded"};
    if (size_.bytes > kMaxTextBytes)
      throw Refusal{
          origin, "over " + core::format_bytes(static_cast<double>(kMaxTextBytes)) + " of text, with aliases expanded"};
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      throw Refusal{at(mark), "tags have no meaning here; remove '" + tag.substr(0, 60) + "'"};
  }

  bool is_in_brackets() const { return !open_.empty() && open_.back().style == YAML::EmitterStyle::Flow; }

  /// Returns the text from a mark on.
  std::string_view text_at(const YAML::Mark& mark) const {
    return text_.substr(std::min(static_cast<std::size_t>(mark.pos), text_.size()));
  }

  /// Refuses nothing in place of an item or of a colon, which yaml-cpp takes for null.
  void refuse_missing(const YAML::Mark& mark) {
    if (is_in_brackets() && open_.back().node.kind == NodeKind::sequence && text_at(mark).starts_with(','))
      throw Refusal{at(mark), "not YAML: nothing stands before this comma"};
    if (!open_.empty() && open_.back().style == YAML::EmitterStyle::Block && open_.back().has_key &&
        mark.pos == open_.back().key_mark.pos)
      throw Refusal{at(mark), "not YAML: expected ':' behind the key '" + open_.back().key + "'"};
  }

  /// Returns the line of the mark up to the mark.
  std::string_view line_before(const YAML::Mark& mark) const {
    const std::string_view all_before = text_.substr(0, text_.size() - text_at(mark).size());
    return all_before.substr(all_before.find_last_of('\n') + 1);
  }

  /// Refuses tabs in place of spaces: before the first word of a line inside brackets, and behind a dash.
  void refuse_tab(const YAML::Mark& mark) {
    const std::string_view line = line_before(mark);
    const std::string_view words = line.substr(0, line.find_last_not_of(" \t") + 1);
    const bool has_tab = line.find('\t', words.size()) != std::string_view::npos;
    if (has_tab && (is_in_brackets() ? words.empty() : words.ends_with('-')))
      throw Refusal{at(mark), "not YAML: a tab before this word; indent by spaces"};
  }

  /// Refuses a value below its key that does not begin to the right of the key. The items of a list may.
  void refuse_unindented(const YAML::Mark& mark) {
    if (open_.empty() || open_.back().style != YAML::EmitterStyle::Block || !open_.back().has_key) return;
    const Open& owner = open_.back();
    const bool is_below = mark.line > owner.key_mark.line && mark.column <= owner.key_mark.column;
    const std::string_view before_key = text_.substr(0, text_.size() - text_at(owner.key_mark).size());
    if (is_below && !text_at(mark).starts_with('-') && !core::trimmed(before_key).ends_with('?'))
      throw Refusal{at(mark), "not YAML: the value of '" + owner.key + "' is not indented more than its key"};
  }

  /// Refuses scalars that yaml-cpp reads though they are no YAML, or reads as another text.
  void refuse_misread(const YAML::Mark& mark) {
    std::string_view source = text_at(mark);
    while (source.starts_with('&')) {
      source.remove_prefix(std::min(source.find_first_of(" \t\r\n"), source.size()));
      source.remove_prefix(std::min(source.find_first_not_of(" \t\r\n"), source.size()));
    }
    if (source.starts_with('!')) throw Refusal{at(mark), "tags have no meaning here; remove '!'"};
    const char first = source.empty() ? '\0' : source.front();
    ends_in_block_ = first == '|' || first == '>';
    if (first == '@' || first == '`' || first == '%' || (first == ':' && is_in_brackets()))
      throw Refusal{at(mark), std::string("not YAML: a word can't begin with '") + first + "'; put it in quotes"};
    if (ends_in_block_) {
      const std::size_t end = source.find_first_not_of("+-0123456789", 1);
      if (end != std::string_view::npos && std::string_view(" \t\r\n").find(source[end]) == std::string_view::npos)
        throw Refusal{at(mark), std::string("not YAML: expected the end of the line behind '") + first + "'"};
      // yaml-cpp loses an empty line at the end of such a text.
      if (source.substr(1, std::min(end, source.size()) - 1).find('+') != std::string_view::npos && first == '>')
        throw Refusal{at(mark), "'>+' is not read; write '|+' or '>'"};
    }
    if (first != '"' && first != '\'') return;
    const std::string_view inside = source.substr(1);
    const std::size_t word = inside.find_first_not_of(" \t\r\n");
    if (std::count(inside.begin(), inside.begin() + static_cast<std::ptrdiff_t>(std::min(word, inside.size())), '\n') >
        1)
      throw Refusal{at(mark), "a text in quotes can't begin with an empty line here; write \"\\n\" for it"};
    for (std::size_t i = 0; first == '"' && i + 1 < inside.size() && inside[i] != '"'; ++i)
      if (inside[i] == '\\' && inside[++i] == '\'')
        throw Refusal{at(mark), "not YAML: \\' is no escape; a ' in double quotes stands alone"};
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Open opened) {
    refuse_tag(mark, tag == "!" ? "!!" : tag);  // of a scalar, yaml-cpp's word for quotes
    refuse_tab(mark);
    refuse_unindented(mark);
    if (wants_key()) throw Refusal{at(mark), "a key must be a word, not a list or a mapping; is every bracket closed?"};
    if (open_.size() >= static_cast<std::size_t>(kMaxDepth))
      throw Refusal{at(mark), "nested over " + std::to_string(kMaxDepth) + " levels deep"};
    opened.anchor = anchor;
    opened.before = size_;
    grow(opened.node.origin, 0);
    open_.push_back(std::move(opened));
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    keep_anchor(done.anchor, done.node, done.before);
    place(std::move(done.node));
  }

  /// Keeps the node of an anchor. The copy counts towards the limit, or nested anchors would multiply.
  void keep_anchor(YAML::anchor_t anchor, const Node& node, Size before) {
    if (anchor == 0) return;
    const auto index = static_cast<std::size_t>(anchor);
    if (anchors_.size() <= index) anchors_.resize(index + 1);
    const Size size{size_.nodes - before.nodes, size_.bytes - before.bytes};
    size_.nodes += size.nodes;
    size_.bytes += size.bytes;
    refuse_growth(node.origin);
    anchors_[index] = {node, size, true};
  }

  void take_key(const YAML::Mark& mark, const Node& node) {
    Origin origin = at(mark);
    if (node.kind != NodeKind::scalar)
      throw Refusal{std::move(origin), "a key must be a word, not a list or a mapping"};
    if (node.is_word("<<"))
      throw Refusal{std::move(origin), "merge keys ('<<') are not supported; 'base: other.yaml' overlays a whole file"};
    Open& owner = open_.back();
    owner.key = node.text;
    owner.key_origin = std::move(origin);
    owner.key_mark = mark;
    owner.has_key = true;
  }

  void place(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& owner = open_.back();
    if (owner.node.kind == NodeKind::sequence) {
      owner.node.items.push_back(std::move(node));
      return;
    }
    owner.has_key = false;
    // yaml-cpp places an empty value at the token that follows it, which may be lines below.
    if (node.kind == NodeKind::null && node.origin.line != owner.key_origin.line) node.origin = owner.key_origin;
    const auto [first, is_new] = owner.lines.emplace(owner.key, owner.key_origin.line);
    if (!is_new) {
      problems_.add(owner.key_origin, path_of(owner.key),
                    "duplicate key; the first is at line " + std::to_string(first->second));
      return;
    }
    owner.node.add(std::move(owner.key), std::move(owner.key_origin), std::move(node));
  }

  std::string path_of(const std::string& key) const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i)
      path = open_[i].node.kind == NodeKind::sequence ? join_path(path, open_[i].node.items.size())
                                                      : join_path(path, open_[i].key);
    return join_path(path, key);
  }

  std::string_view text_;
  CharacterColumns columns_;
  Origin last_;
  Problems& problems_;
  Node root_;
  std::vector<Open> open_;
  std::vector<Anchored> anchors_;  // by yaml-cpp's number
  std::unordered_map<std::string, int> anchor_lines_;
  bool ends_in_block_ = false;
  Size size_;
  int num_documents_ = 0;
};

/// Hides question marks inside words: yaml-cpp 0.7 ends a word in brackets at them, as YAML doesn't. A question mark
/// behind a blank may begin a key and stays.
std::string without_question_marks(std::string_view text) {
  std::string hidden(text);
  for (std::size_t i = 1; i < hidden.size(); ++i)
    if (hidden[i] == '?' && std::string_view(" \t\r\n[{,").find(hidden[i - 1]) == std::string_view::npos)
      hidden[i] = kHiddenQuestionMark;
  return hidden;
}

/// Returns whether the last line is the mark that ends a document.
bool ends_document(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return last != std::string_view::npos && last >= 2 && text.substr(last - 2, 3) == "...";
}

/// Returns the number of the line, from 1, of a directive that is not one of YAML's version before '---'. yaml-cpp
/// reads past it.
std::optional<int> find_wrong_directive(std::string_view text) {
  int directive = 0;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('%')) {
      const std::string_view version = core::trimmed(line.substr(0, line.find('#')), " \t\r");
      if (directive != 0 || (version != "%YAML 1.1" && version != "%YAML 1.2")) return number;
      directive = number;
    } else if (const std::string_view words = core::trimmed(line, " \t\r"); !words.empty() && !words.starts_with('#')) {
      const bool is_start = words == "---" || line.starts_with("--- ") || line.starts_with("---\t");
      return directive != 0 && !is_start ? std::optional(directive) : std::nullopt;
    }
  }
  return directive != 0 ? std::optional(directive) : std::nullopt;
}

/// Explains yaml-cpp's message in the words of the user who wrote the file.
std::string explanation(const std::string& message) {
  if (message == YAML::ErrorMsg::MAP_VALUE)
    return "; check the indentation, and that the line before says 'key: value'";
  if (message == YAML::ErrorMsg::END_OF_MAP) return "; check the indentation";
  if (message == YAML::ErrorMsg::FLOW_END) return "; nothing is open that this could close";
  return "";
}

void add_syntax_error(const YAML::Exception& error, TreeBuilder& builder, Problems& problems) {
  const bool ends_in_quote = error.msg == YAML::ErrorMsg::DOC_IN_SCALAR || error.msg == YAML::ErrorMsg::EOF_IN_SCALAR;
  const bool ends_in_bracket =
      error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW || error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW;
  const std::optional<Origin> bracket = builder.open_bracket();
  // Where it opens helps more than where its absence was noticed.
  if (bracket && (ends_in_quote || ends_in_bracket))
    return problems.add(*bracket, "",
                        "not YAML: the bracket that opens here, or a quote inside it, isn't closed by line " +
                            std::to_string(error.mark.line + 1));
  if (ends_in_quote) return problems.add(builder.last(), "", "not YAML: a quote that opens after this is never closed");
  const Origin place = error.mark.is_null() ? builder.last() : builder.at(error.mark);
  const bool has_tab = error.msg == YAML::ErrorMsg::TAB_IN_INDENTATION ||
                       (!error.mark.is_null() && builder.is_indented_by_tab(error.mark));
  problems.add(place, "",
               "not YAML: " + error.msg + (has_tab ? "; indent by spaces, not by a tab" : explanation(error.msg)));
}

}  // namespace

std::optional<Node> parse(std::string_view text, const Origin& origin, Problems& problems) {
  if (const auto bad = find_bad_byte(text)) {
    Origin place = origin;
    if (place.kind == OriginKind::file) place.line = bad->line, place.column = bad->column;
    problems.add(place, "",
                 bad->reason + " at byte offset " + std::to_string(bad->offset) + "; the file must be UTF-8 text");
    return std::nullopt;
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // the mark that some editors put first
  if (const auto line = find_wrong_directive(text)) {
    Origin place = origin;
    if (place.kind == OriginKind::file) place.line = *line;
    problems.add(place, "",
                 "a line that begins with % has no meaning here, but for '%YAML 1.2' before '---'; remove the line");
    return std::nullopt;
  }
  const auto read = [](const std::string& hidden, TreeBuilder& builder) {
    std::istringstream stream(hidden);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  };
  const std::string hidden = without_question_marks(text);
  const bool ends_in_line = text.empty() || text.ends_with('\n') || ends_document(text);
  TreeBuilder builder(text, origin, problems);
  try {
    // The end mark makes yaml-cpp see a quoted text that never ends, which it would take for a value.
    read(ends_document(text) ? hidden : hidden + (ends_in_line ? "...\n" : "\n...\n"), builder);
    if (!ends_in_line && builder.ends_in_block()) {
      if (core::trimmed(text.substr(text.find_last_of('\n') + 1)).empty())
        throw Refusal{builder.last(), "the text that begins here ends in a line of blanks; remove these"};
      Problems told;  // the line's end that stands before the mark is not the text's: `a: |` would keep it
      TreeBuilder as_written(text, origin, told);
      read(hidden, as_written);
      return as_written.take();
    }
  } catch (const Refusal& refusal) {
    problems.add(refusal.origin, "", refusal.message);
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    add_syntax_error(error, builder, problems);
    return std::nullopt;
  }
  if (!builder.saw_document()) {
    Node nothing;
    nothing.origin = origin;
    return nothing;
  }
  return builder.take();
}

std::optional<Node> parse_file(const std::filesystem::path& path, Problems& problems) {
  const Origin origin{OriginKind::file, path.string(), 1, 1};
  std::string text;
  try {
    text = core::read_file(path, kMaxFileBytes);
  } catch (const core::Error& error) {
    problems.add(origin, "", error.what());
    return std::nullopt;
  }
  std::optional<Node> root = parse(text, origin, problems);
  if (!root || root->kind == NodeKind::mapping) return root;
  problems.add(root->origin, "",
               root->kind == NodeKind::null ? "the file is empty; 'trainctl config new' writes one to start from"
                                            : "expected 'key: value' lines, as in 'name: my-run'");
  return std::nullopt;
}

}  // namespace trainctl::config
