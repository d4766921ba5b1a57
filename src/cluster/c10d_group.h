// A Group over one of c10d's process groups. Only this folder sees c10d.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "cluster/group.h"
#include "cluster/journal.h"

namespace trainctl {

/// What a group is made of: a backend for CPU tensors, and one for those of the device where that is a GPU.
struct C10dGroupParts {
  std::string name;  // "all ranks"
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  c10::intrusive_ptr<c10d::Backend> cpu;
  c10d::ProcessGroup::BackendType cpu_type = c10d::ProcessGroup::BackendType::GLOO;
  c10::intrusive_ptr<c10d::Backend> cuda;  // may be null
  c10::Device device = c10::kCPU;
  std::shared_ptr<Journal> journal;  // enters every collective, also c10d::Reducer's
};

std::unique_ptr<Group> make_c10d_group(const C10dGroupParts& parts);

/// What the group stands on; null for alone().
c10::intrusive_ptr<c10d::ProcessGroup> process_group(Group& group);

/// An exception's message without LibTorch's C++ stack.
std::string message_of(const std::exception& error);

}  // namespace trainctl
