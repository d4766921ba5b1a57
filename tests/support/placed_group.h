// A group on nodes that a test chooses, which only remembers how it was split.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/group.h"

namespace trainctl::testing {

class PlacedGroup final : public comm::Group {
 public:
  PlacedGroup(std::int64_t rank, std::vector<std::int64_t> nodes) : rank_(rank), nodes_(std::move(nodes)) {}
  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(nodes_.size()); }
  std::unique_ptr<comm::Work> all_reduce(at::Tensor, comm::Reduce) override { return nullptr; }
  std::unique_ptr<comm::Work> all_gather(at::Tensor, at::Tensor) override { return nullptr; }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor, at::Tensor) override { return nullptr; }
  std::unique_ptr<comm::Work> broadcast(at::Tensor, std::int64_t) override { return nullptr; }
  std::unique_ptr<comm::Work> all_to_all(at::Tensor, at::Tensor) override { return nullptr; }
  std::unique_ptr<comm::Work> isend(at::Tensor, std::int64_t) override { return nullptr; }
  std::unique_ptr<comm::Work> irecv(at::Tensor, std::int64_t) override { return nullptr; }
  void barrier() override {}
  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<comm::Group> split(const std::string& name, const std::vector<std::int64_t>& members) override {
    splits.emplace_back(name, members);
    return comm::alone();
  }

  std::vector<std::pair<std::string, std::vector<std::int64_t>>> splits;

 private:
  std::int64_t rank_;
  std::vector<std::int64_t> nodes_;
};

}  // namespace trainctl::testing
