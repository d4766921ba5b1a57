// A rank that has some of the model's blocks: a stage of a pipeline, or several.
#include "distributed/borrowed_weight.h"
#include "distributed/kinds.h"

namespace trainctl::distributed {
namespace {

/// Shows tensors that this stage has, and others don't, as parts that are whole.
class StageState final : public runtime::State {
 public:
  StageState(runtime::State& inner, comm::Group& copies) : inner_(inner), copies_(copies) {}

  void tensor(const std::string& name, at::Tensor& value) override {
    at::Tensor flat = value.as_strided({value.numel()}, {1});  // dense, in the order in memory
    inner_.part(name, flat,
                {.shape = value.sizes().vec(),
                 .strides = value.strides().vec(),
                 .offset = 0,
                 .copy = copies_.rank(),
                 .num_copies = copies_.size()});
  }
  void part(const std::string& name, at::Tensor& stretch, const runtime::PartOf& whole) override {
    inner_.part(name, stretch, whole);
  }
  void integer(const std::string& name, std::int64_t& value) override { inner_.integer(name, value); }
  void number(const std::string& name, double& value) override { inner_.number(name, value); }
  void text(const std::string& name, std::string& value) override { inner_.text(name, value); }

 private:
  runtime::State& inner_;
  comm::Group& copies_;  // the ranks with the same stages
};

class Staged final : public Parallel {
 public:
  Staged(std::unique_ptr<Parallel> stage, const PipelineStages& stages, comm::DeviceMesh& mesh, model::Model& model)
      : stage_(std::move(stage)), copies_(mesh.batch()), row_(mesh.over({comm::Axis::pipeline})) {
    const std::int64_t place = row_.rank();
    if (!stages.loan || (place != stages.loan->owner && place != stages.loan->borrower)) return;
    borrowed_ = std::make_unique<BorrowedWeight>(*stages.loan, row_, model);
    share_weight();
  }

  const std::vector<optimizer::OptimizedParameter>& optimized() const override { return stage_->optimized(); }
  c10::Device update_device() const override { return stage_->update_device(); }
  std::unique_ptr<optimizer::Optimizer> make_optimizer(const optimizer::OptimizerConfig& config) override {
    return stage_->make_optimizer(config);
  }

  void before_forward(Gradients gradients, std::int64_t samples) override {
    is_last_ = gradients == Gradients::reduce;
    stage_->before_forward(gradients, samples);
  }
  void before_backward(const at::Tensor& loss) override {
    if (is_last_ && borrowed_ && borrowed_->is_owner()) borrowed_->expect_gradient();
    stage_->before_backward(loss);
  }
  void after_backward() override {
    stage_->after_backward();
    if (is_last_ && borrowed_ && !borrowed_->is_owner()) borrowed_->send_gradient();
  }
  void after_update() override {
    stage_->after_update();
    share_weight();
  }
  void zero_grad() override {
    stage_->zero_grad();
    if (borrowed_ && !borrowed_->is_owner()) borrowed_->weight().mutable_grad().reset();
  }
  void with_whole(const at::Tensor& parameter, const std::function<void()>& use) override {
    stage_->with_whole(parameter, use);
  }

  void sum_over_parts(at::Tensor& sum) override {
    stage_->sum_over_parts(sum);
    row_.all_reduce(sum, comm::Reduce::sum)->wait();
  }
  void max_over_parts(at::Tensor& value) override {
    stage_->max_over_parts(value);
    row_.all_reduce(value, comm::Reduce::max)->wait();
  }

  void share_buffers() override { stage_->share_buffers(); }
  void visit_state(runtime::State& state, optimizer::Optimizer& optimizer) override {
    StageState own(state, copies_);
    stage_->visit_state(own, optimizer);
  }
  void visit_averages(runtime::State& state, optimizer::Ema& ema) override {
    StageState own(state, copies_);
    stage_->visit_averages(own, ema);
  }

 private:
  void share_weight() {
    if (!borrowed_) return;
    if (!borrowed_->is_owner()) return borrowed_->share_values();
    stage_->with_whole(borrowed_->weight(), [&] { borrowed_->share_values(); });
  }

  std::unique_ptr<Parallel> stage_;
  comm::Group& copies_;
  comm::Group& row_;
  std::unique_ptr<BorrowedWeight> borrowed_;
  bool is_last_ = false;
};

}  // namespace

std::unique_ptr<Parallel> build_staged(std::unique_ptr<Parallel> stage, const PipelineStages& stages,
                                       comm::DeviceMesh& mesh, model::Model& model) {
  return std::make_unique<Staged>(std::move(stage), stages, mesh, model);
}

}  // namespace trainctl::distributed
