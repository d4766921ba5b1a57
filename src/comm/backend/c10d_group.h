// A Group over one of c10d's process groups. Only this folder sees c10d.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "comm/group.h"
#include "comm/health/flight_recorder.h"

namespace trainctl::comm {

/// What a group is made of: a backend for CPU tensors, and one for those of the device where that is a GPU.
struct C10dGroupParts {
  std::string name;  // "all ranks", "tensor ranks 0 1"
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  c10::intrusive_ptr<c10d::Backend> cpu;
  c10d::ProcessGroup::BackendType cpu_type = c10d::ProcessGroup::BackendType::GLOO;
  c10::intrusive_ptr<c10d::Backend> cuda;  // may be null
  c10::Device device = c10::kCPU;
  std::shared_ptr<FlightRecorder> journal;  // enters every collective, also c10d::Reducer's
  std::vector<std::int64_t> nodes;          // of the members
  std::vector<std::int64_t> members;        // their ranks among all
  /// Makes a group of the members with these ranks among all. The same members may ask for another of the same name.
  std::function<std::unique_ptr<Group>(const std::string& name, const std::vector<std::int64_t>& members)> make_group;
};

std::unique_ptr<Group> make_c10d_group(const C10dGroupParts& parts);

/// What the group stands on; null for alone().
c10::intrusive_ptr<c10d::ProcessGroup> process_group(Group& group);

/// Where its collectives are entered; null where they aren't.
std::shared_ptr<FlightRecorder> journal_of(Group& group);

}  // namespace trainctl::comm
