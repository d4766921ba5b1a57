// The ranks of a job as an array with named axes, as PyTorch's DeviceMesh.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/group.h"

namespace trainctl::comm {

/// Outermost first: ranks that differ on the last axis only are neighbours, on one node where its size allows.
enum class Axis : std::uint8_t { pipeline, data, shard, context, tensor };
inline constexpr std::int64_t kNumAxes = 5;

std::string_view name_of(Axis axis);

/// The number of ranks along each axis. Their product is the number of ranks.
struct MeshShape {
  std::int64_t pipeline = 1;  // stages of the model
  std::int64_t data = 1;      // copies of the model, each with its own samples
  std::int64_t shard = 1;     // parts of each parameter, each rank with its own samples (ZeRO)
  std::int64_t context = 1;   // parts of each sequence
  std::int64_t tensor = 1;    // parts of each layer

  std::int64_t size(Axis axis) const;
  std::int64_t num_ranks() const { return pipeline * data * shard * context * tensor; }
};

class DeviceMesh {
 public:
  /// `world` outlives the mesh. Ranks of one node are neighbours, whatever the launcher's order.
  DeviceMesh(Group& world, const MeshShape& shape);

  /// All ranks: those that start, stop, save and fail together.
  Group& world() { return world_; }
  /// The ranks that take different samples of a step.
  Group& batch() { return over({Axis::data, Axis::shard}); }
  /// The ranks whose gradients are summed: they take different samples, or different tokens of them.
  Group& gradients() { return over({Axis::data, Axis::shard, Axis::context}); }
  /// The ranks whose places differ from this rank's on these axes only. Made by the first call, which all of them make.
  /// Their ranks are their places on the axes, the last fastest. Where those are the ranks of world(), it is world().
  Group& over(std::initializer_list<Axis> axes);

  std::int64_t size(Axis axis) const { return shape_.size(axis); }
  /// This rank's place on an axis.
  std::int64_t place(Axis axis) const { return places_[static_cast<std::size_t>(axis)]; }

 private:
  std::vector<std::int64_t> members_over(unsigned axes) const;

  Group& world_;
  MeshShape shape_;
  std::vector<std::int64_t> ranks_;                    // by their place in the array, the last axis fastest
  std::vector<std::int64_t> places_;                   // of this rank, by axis
  std::map<unsigned, std::unique_ptr<Group>> groups_;  // by the set of axes
};

}  // namespace trainctl::comm
