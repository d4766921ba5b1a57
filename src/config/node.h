// A YAML document as a tree in which every key and every value knows where it was written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

enum class OriginKind { file, command_line, default_value };

/// Where a key or value comes from.
struct Origin {
  OriginKind kind = OriginKind::default_value;
  std::string source;  // the file's name, or "--set a.b=v"
  int line = 0;        // 1-based, of files alone
  int column = 0;      // 1-based, in characters

  /// "exp.yaml:12:7", "--set optimizer.lr=1", "default".
  std::string text() const;
};

enum class NodeKind { null, scalar, sequence, mapping };
enum class ScalarStyle { plain, quoted };

struct Node {
  struct Entry;

  NodeKind kind = NodeKind::null;
  ScalarStyle style = ScalarStyle::plain;  // of a scalar
  std::string text;                        // of a scalar
  std::vector<Node> items;                 // of a sequence
  std::vector<Entry> entries;              // of a mapping, in the order written; keys are unique
  Origin origin;

  static Node scalar(std::string text, ScalarStyle style = ScalarStyle::plain, Origin origin = {});
  static Node sequence(Origin origin = {});
  static Node mapping(Origin origin = {});

  /// The value of a mapping's key, or nullptr.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  const Entry* find_entry(std::string_view key) const;
  /// Appends to a mapping.
  Node& add(std::string key, Origin key_origin, Node value);
  /// A plain scalar with this text.
  bool is_word(std::string_view word) const;
};

struct Node::Entry {
  std::string key;
  Origin key_origin;
  Node value;
};

/// The node at "dataset.transforms[2].p", or nullptr.
const Node* find_path(const Node& root, std::string_view path);

/// Returns where a key was written, else where the nearest mapping around it was.
Origin origin_of(const Node& root, std::string_view path);

}  // namespace trainctl::config
