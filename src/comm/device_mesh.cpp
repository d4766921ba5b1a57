#include "comm/device_mesh.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "core/error.h"

namespace trainctl::comm {
namespace {

constexpr std::array<Axis, kNumAxes> kAxes{Axis::pipeline, Axis::data, Axis::shard, Axis::context, Axis::tensor};

unsigned bit(Axis axis) {
  return 1U << static_cast<unsigned>(axis);
}

/// Returns the place on each axis of number `index` of the array.
std::vector<std::int64_t> places_of(const MeshShape& shape, std::int64_t index) {
  std::vector<std::int64_t> places(kAxes.size());
  for (std::size_t i = kAxes.size(); i-- > 0;) {
    places[i] = index % shape.size(kAxes[i]);
    index /= shape.size(kAxes[i]);
  }
  return places;
}

}  // namespace

std::string_view name_of(Axis axis) {
  constexpr std::array<std::string_view, kNumAxes> kNames{"pipeline", "data", "shard", "context", "tensor"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::int64_t MeshShape::size(Axis axis) const {
  return std::array{pipeline, data, shard, context, tensor}[static_cast<std::size_t>(axis)];
}

DeviceMesh::DeviceMesh(Group& world, const MeshShape& shape)
    : world_(world), shape_(shape), ranks_(static_cast<std::size_t>(world.size())) {
  core::ensure(shape.num_ranks() == world.size(), "a mesh has a place for each rank");
  std::iota(ranks_.begin(), ranks_.end(), 0);
  std::stable_sort(ranks_.begin(), ranks_.end(), [&](std::int64_t a, std::int64_t b) {
    return world.nodes()[static_cast<std::size_t>(a)] < world.nodes()[static_cast<std::size_t>(b)];
  });
  places_ = places_of(shape, std::find(ranks_.begin(), ranks_.end(), world.rank()) - ranks_.begin());
}

std::vector<std::int64_t> DeviceMesh::members_over(unsigned axes) const {
  std::vector<std::int64_t> members;
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const std::vector<std::int64_t> places = places_of(shape_, static_cast<std::int64_t>(index));
    const bool is_member = std::all_of(kAxes.begin(), kAxes.end(), [&](Axis axis) {
      const auto i = static_cast<std::size_t>(axis);
      return (axes & bit(axis)) != 0 || places[i] == places_[i];
    });
    if (is_member) members.push_back(ranks_[index]);
  }
  return members;
}

Group& DeviceMesh::over(std::initializer_list<Axis> axes) {
  unsigned set = 0;
  std::string name;
  for (const Axis axis : axes) {
    if (shape_.size(axis) == 1) continue;  // the same ranks without it
    set |= bit(axis);
    name += (name.empty() ? "" : "-") + std::string(name_of(axis));
  }
  std::unique_ptr<Group>& group = groups_[set];
  if (group) return *group;
  const std::vector<std::int64_t> members = members_over(set);
  if (members.size() == ranks_.size() && std::is_sorted(members.begin(), members.end())) return world_;
  group = members.size() == 1 ? alone() : world_.split(name, members);
  return *group;
}

}  // namespace trainctl::comm
