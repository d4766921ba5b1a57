// Gradients of whole parameters, of which each rank has stretches after ZeRO's reduction: for rules such as muon.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "distributed/units.h"
#include "optimizer/optimizer.h"

namespace trainctl::distributed {

/// Gathers the gradients unit by unit. Each rank changes those parameters of which it has a stretch, so that nothing is
/// sent back (https://arxiv.org/abs/2502.16982, distributed Muon).
class GatheredGradients final : public optimizer::WholeGradients {
 public:
  /// `wanted`: names of parameters. `units` and `shards`, the ranks that share a parameter, outlive this object.
  GatheredGradients(const std::vector<Unit>& units, std::set<std::string> wanted, comm::Group& shards,
                    c10::Device device)
      : units_(units), wanted_(std::move(wanted)), shards_(shards), device_(device) {}

  c10::Device device() const override { return device_; }
  void change(std::optional<at::ScalarType> dtype,
              const std::function<void(const std::string& name, at::Tensor& whole)>& change) override;

 private:
  struct Gathering {
    const Unit* unit = nullptr;
    at::Tensor mine;   // [shard]
    at::Tensor whole;  // [numel]
    std::unique_ptr<comm::Work> work;
  };

  bool is_wanted(const Unit& unit) const;
  Gathering start(const Unit& unit, std::optional<at::ScalarType> dtype) const;

  const std::vector<Unit>& units_;
  std::set<std::string> wanted_;
  comm::Group& shards_;
  c10::Device device_;
};

}  // namespace trainctl::distributed
