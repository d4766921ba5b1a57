#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "checkpoint/chunked_file.h"
#include "checkpoint/gather_texts.h"
#include "checkpoint/manifest.h"
#include "checkpoint/node_snapshots.h"
#include "checkpoint/parts.h"
#include "checkpoint/step_directory.h"
#include "core/error.h"
#include "core/file.h"
#include "core/mapped_file.h"
#include "core/text.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Identifies a snapshot by its step and by the start of the job that wrote it.
struct Key {
  std::int64_t step = 0;
  std::int64_t attempt = 0;
  auto operator<=>(const Key&) const = default;
};

/// Parts of a snapshot on one node.
struct Holding {
  std::int64_t count = 0;     // number of all parts
  std::int64_t elements = 0;  // elements of all parts
  std::int64_t covered = 0;   // elements that the parts on this node cover
  std::set<std::int64_t> parts;
  bool is_whole() const { return covered == elements; }
};
using Holdings = std::map<Key, Holding>;

/// Reads a part; returns nothing if the part is torn or its file has another size.
std::optional<Part> sound_part(const fs::path& path) {
  try {
    Part part = read_part(path);
    for (const auto& [name, sums] : part.manifest.files)
      if (fs::file_size(path.parent_path() / name) != sums.size) return std::nullopt;
    return part;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// Lists the snapshots on this node.
Holdings look(const fs::path& directory) {
  std::map<Key, TensorIndex> tensors;
  Holdings found;
  if (!has_snapshots(directory)) return found;
  std::error_code error;
  for (const fs::directory_entry& step : fs::directory_iterator(directory, error))
    for (const fs::directory_entry& file : fs::directory_iterator(step.path(), error)) {
      if (file.path().extension() != ".json") continue;
      std::optional<Part> part = sound_part(file.path());
      if (!part) continue;
      const Key key{part->manifest.step, part->attempt};
      Holding& holding = found[key];
      holding.count = part->count;
      holding.elements = part->elements;
      holding.parts.insert(part->index);
      merge(tensors[key], std::move(part->manifest.tensors));
    }
  for (auto& [key, holding] : found) holding.covered = covered_elements(tensors[key]);
  return found;
}

std::string text_of(const Holdings& holdings) {
  std::ostringstream text;
  for (const auto& [key, holding] : holdings) {
    text << key.step << " " << key.attempt << " " << holding.count << " " << holding.elements << " " << holding.covered
         << " " << holding.parts.size();
    for (const std::int64_t part : holding.parts) text << " " << part;
    text << "\n";
  }
  return text.str();
}

Holdings holdings_of(const std::string& text) {
  Holdings holdings;
  std::istringstream stream(text);
  Key key;
  Holding holding;
  std::size_t num_parts = 0;
  while (stream >> key.step >> key.attempt >> holding.count >> holding.elements >> holding.covered >> num_parts) {
    holding.parts.clear();
    for (std::int64_t part = 0; num_parts > 0 && stream >> part; --num_parts) holding.parts.insert(part);
    holdings[key] = holding;
  }
  return holdings;
}

/// A node, identified by its first member, and its parts of the snapshot.
struct Node {
  std::int64_t leader = 0;
  Holding holding;
};

/// Holding of a node without parts; it must not count as whole.
const Holding kNothing{.elements = 1};

/// First member of each node, which acts for the node.
class Nodes {
 public:
  explicit Nodes(comm::Group& group) {
    const std::vector<std::int64_t>& places = group.nodes();
    std::map<std::int64_t, std::int64_t> first;
    for (std::size_t rank = 0; rank < places.size(); ++rank)
      first.try_emplace(places[rank], static_cast<std::int64_t>(rank));
    for (const auto& [node, leader] : first) leaders_.push_back(leader);
    own_leader_ = first.at(places[static_cast<std::size_t>(group.rank())]);
  }
  const std::vector<std::int64_t>& leaders() const { return leaders_; }
  std::int64_t own_leader() const { return own_leader_; }

 private:
  std::vector<std::int64_t> leaders_;
  std::int64_t own_leader_ = 0;
};

std::int64_t count_of(const std::vector<Node>& nodes) {
  std::int64_t count = 0;
  for (const Node& node : nodes) count = std::max(count, node.holding.count);
  return count;
}

std::set<std::int64_t> together(const std::vector<Node>& nodes) {
  std::set<std::int64_t> parts;
  for (const Node& node : nodes) parts.insert(node.holding.parts.begin(), node.holding.parts.end());
  return parts;
}

/// Returns the parts that an incomplete node needs: those of a complete node, or else all parts. Empty: some part is
/// lost.
std::set<std::int64_t> parts_needed(const std::vector<Node>& nodes) {
  for (const Node& node : nodes)
    if (node.holding.count > 0 && node.holding.is_whole()) return node.holding.parts;
  const std::set<std::int64_t> all = together(nodes);
  return static_cast<std::int64_t>(all.size()) == count_of(nodes) ? all : std::set<std::int64_t>{};
}

std::string lack_of(const Key& key, const std::vector<Node>& nodes) {
  const std::set<std::int64_t> all = together(nodes);
  std::vector<std::string> lost;
  for (std::int64_t part = 0; part < count_of(nodes); ++part)
    if (!all.contains(part)) lost.push_back(std::to_string(part));
  return "the snapshot of step " + core::format_count(key.step) + " lacks the part" +
         (lost.size() == 1 ? " of rank " : "s of ranks ") + core::list_words(lost);
}

enum class Receive { keep, drop };

/// Sends a file from `root` to all members; members with Receive::keep store it.
void send_file(const fs::path& path, std::int64_t root, Receive receive, comm::Group& group) {
  constexpr std::int64_t kPiece = 16 << 20;
  const bool sends = group.rank() == root;
  const core::MappedFile file = sends ? core::MappedFile(path) : core::MappedFile();
  const at::Tensor size = at::full({1}, static_cast<std::int64_t>(file.bytes().size()), at::kLong);
  group.broadcast(size, root)->wait();
  std::optional<core::FileWriter> writer;
  if (receive == Receive::keep) {
    make_step_directory(path.parent_path());
    writer.emplace(path);
  }
  for (std::int64_t at = 0; at < size.item<std::int64_t>(); at += kPiece) {
    const std::int64_t count = std::min(kPiece, size.item<std::int64_t>() - at);
    const at::Tensor piece = at::empty({count}, at::kByte);
    auto* const bytes = static_cast<std::byte*>(piece.mutable_data_ptr());
    if (sends) std::copy_n(file.bytes().begin() + at, count, bytes);
    core::check_mapped_files();
    group.broadcast(piece, root)->wait();
    if (writer) writer->write(std::span<const std::byte>(bytes, static_cast<std::size_t>(count)));
  }
  if (writer) writer->close(core::Durability::process);
}

/// Sends each needed part to the nodes that lack it.
void send_parts(const fs::path& step_directory, const std::vector<Node>& nodes, const std::set<std::int64_t>& needed,
                comm::Group& group) {
  for (const std::int64_t part : needed) {
    bool is_lacking = false;
    Receive receive = Receive::drop;
    std::optional<std::int64_t> root;
    for (const Node& node : nodes) {
      const bool has = node.holding.parts.contains(part);
      if (has && !root) root = node.leader;
      if (has || node.holding.is_whole()) continue;
      is_lacking = true;
      if (node.leader == group.rank()) receive = Receive::keep;
    }
    if (!is_lacking) continue;
    for (const char* extension : {".safetensors", ".json"})
      send_file(step_directory / (part_name(part, count_of(nodes)) + extension), *root, receive, group);
  }
  group.barrier();
}

}  // namespace

SnapshotSearch find_snapshot(const fs::path& directory, std::int64_t newer_than, comm::Group& group) {
  const Nodes nodes(group);
  const bool leads = nodes.own_leader() == group.rank();
  const std::vector<std::string> texts = gather_texts(group, leads ? text_of(look(directory)) : "");
  std::map<Key, std::vector<Node>, std::greater<>> snapshots;
  for (std::size_t i = 0; i < nodes.leaders().size(); ++i) {
    const std::int64_t leader = nodes.leaders()[i];
    for (const auto& [key, holding] : holdings_of(texts[static_cast<std::size_t>(leader)])) {
      if (key.step <= newer_than) continue;
      std::vector<Node>& holders = snapshots[key];
      if (holders.empty())
        for (const std::int64_t each : nodes.leaders()) holders.push_back({each, kNothing});
      holders[i].holding = holding;
    }
  }
  SnapshotSearch search;
  for (const auto& [key, holders] : snapshots) {
    const std::set<std::int64_t> needed = parts_needed(holders);
    if (needed.empty()) {
      search.passed_over.push_back(lack_of(key, holders));
      continue;
    }
    const fs::path step_directory = directory / step_name(key.step);
    send_parts(step_directory, holders, needed, group);
    const Holding& own = std::ranges::find(holders, nodes.own_leader(), &Node::leader)->holding;
    search.found.emplace(FoundSnapshot{.step = key.step, .parts = {}});
    for (const std::int64_t part : own.is_whole() ? own.parts : needed)
      search.found->parts.push_back(step_directory / (part_name(part, count_of(holders)) + ".json"));
    break;
  }
  return search;
}

}  // namespace trainctl::checkpoint
