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
      : columns_(text), last_(origin), problems_(problems) {}

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

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++num_documents_ > 1)
      throw Refusal{at(mark), "a second document starts here; an experiment is one document, without '---' in between"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) throw Refusal{at(mark), "expected a key before ':'"};
    Node node;
    node.origin = at(mark);
    grow(node.origin, 0);
    keep_anchor(anchor, node, {size_.nodes - 1, size_.bytes});
    place(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto index = static_cast<std::size_t>(anchor);
    if (index >= anchors_.size() || !anchors_[index].complete)
      throw Refusal{at(mark), "an alias inside what it stands for"};
    const Anchored& anchored = anchors_[index];
    size_.nodes += anchored.size.nodes;
    size_.bytes += anchored.size.bytes;
    refuse_growth(at(mark));
    if (wants_key()) return take_key(at(mark), anchored.node);
    place(anchored.node);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& read) override {
    refuse_tag(mark, tag);
    const std::string text = with_question_marks(read);
    Node node = Node::scalar(text, tag == "!" ? ScalarStyle::quoted : ScalarStyle::plain, at(mark));
    grow(node.origin, text.size());
    keep_anchor(anchor, node, {size_.nodes - 1, size_.bytes - text.size()});
    if (wants_key()) return take_key(at(mark), node);
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

 private:
  struct Open {
    Node node;
    YAML::EmitterStyle::value style;
    YAML::anchor_t anchor = 0;
    Size before = {};
    std::string key = {};  // waits for its value
    Origin key_origin = {};
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

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Open opened) {
    refuse_tag(mark, tag);
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

  void take_key(Origin origin, const Node& node) {
    if (node.kind != NodeKind::scalar)
      throw Refusal{std::move(origin), "a key must be a word, not a list or a mapping"};
    if (node.is_word("<<"))
      throw Refusal{std::move(origin), "merge keys ('<<') are not supported; 'base: other.yaml' overlays a whole file"};
    Open& owner = open_.back();
    owner.key = node.text;
    owner.key_origin = std::move(origin);
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

  CharacterColumns columns_;
  Origin last_;
  Problems& problems_;
  Node root_;
  std::vector<Open> open_;
  std::vector<Anchored> anchors_;  // by yaml-cpp's number
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
  problems.add(place, "", "not YAML: " + error.msg + explanation(error.msg));
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
  TreeBuilder builder(text, origin, problems);
  try {
    // The end mark makes yaml-cpp see a quoted text that never ends, which it would take for a value.
    const std::string hidden = without_question_marks(text);
    std::istringstream stream(ends_document(text) ? hidden : hidden + "\n...\n");
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
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
