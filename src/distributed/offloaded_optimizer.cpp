#include "distributed/offloaded_optimizer.h"

#include <ATen/core/grad_mode.h>

#include "core/error.h"
#include "runtime/fake_tensor.h"

namespace trainctl::distributed {
namespace {

enum class StatePlace { memory, offloaded };

/// A visitor that moves tensors into another memory. Counts of updates, one number each, stay.
class Moving final : public runtime::State {
 public:
  explicit Moving(OffloadMemory& memory) : memory_(memory) {}
  void tensor(const std::string&, at::Tensor& value) override {
    if (value.dim() == 0) return;
    const at::Tensor moved = memory_.zeros_like(value);
    // Of zeros no page need be written.
    if (!runtime::is_fake(value) && value.count_nonzero().item<std::int64_t>() > 0) moved.copy_(value);
    value = moved;
    tensors.push_back(moved);
  }
  void part(const std::string& name, at::Tensor&, const runtime::PartOf&) override {
    core::ensure(false, "an optimizer knows of no parts: " + name);
  }
  void integer(const std::string&, std::int64_t&) override {}
  void number(const std::string&, double&) override {}
  void text(const std::string&, std::string&) override {}

  std::vector<at::Tensor> tensors;

 private:
  OffloadMemory& memory_;
};

class OffloadedOptimizer final : public optimizer::Optimizer {
 public:
  OffloadedOptimizer(const optimizer::OptimizerConfig& config, const std::vector<OptimizedUnit>& units,
                     OffloadMemory& memory, StatePlace place)
      : memory_(memory) {
    const at::NoGradGuard no_grad;
    for (const OptimizedUnit& parameters : units) {
      Unit unit{.optimizer = optimizer::build(config, parameters), .streamed = {}};
      if (place == StatePlace::offloaded) {
        Moving moving(memory);
        unit.optimizer->visit_state(moving);
        unit.streamed = std::move(moving.tensors);
      }
      for (const optimizer::OptimizedParameter& parameter : parameters) unit.streamed.push_back(parameter.tensor);
      units_.push_back(std::move(unit));
    }
  }

  void step(double lr, const at::Tensor& found_inf) override {
    if (!units_.empty()) bring(units_.front());
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (i + 1 < units_.size()) bring(units_[i + 1]);
      units_[i].optimizer->step(lr, found_inf);
      put_away(units_[i]);
    }
  }

  void visit_state(runtime::State& state) override {
    for (Unit& unit : units_) {
      unit.optimizer->visit_state(state);
      put_away(unit);
    }
  }

 private:
  struct Unit {
    std::unique_ptr<optimizer::Optimizer> optimizer;
    std::vector<at::Tensor> streamed;
  };

  void bring(const Unit& unit) {
    for (const at::Tensor& tensor : unit.streamed) memory_.bring(tensor);
  }
  void put_away(const Unit& unit) {
    for (const at::Tensor& tensor : unit.streamed) memory_.put_away(tensor);
  }

  OffloadMemory& memory_;
  std::vector<Unit> units_;
};

}  // namespace

std::unique_ptr<optimizer::Optimizer> build_offloaded(const optimizer::OptimizerConfig& config,
                                                      const std::vector<OptimizedUnit>& units, OffloadMemory& memory) {
  return std::make_unique<OffloadedOptimizer>(config, units, memory, StatePlace::offloaded);
}

std::unique_ptr<optimizer::Optimizer> build_over_offloaded(const optimizer::OptimizerConfig& config,
                                                           const std::vector<OptimizedUnit>& units,
                                                           OffloadMemory& memory) {
  return std::make_unique<OffloadedOptimizer>(config, units, memory, StatePlace::memory);
}

}  // namespace trainctl::distributed
