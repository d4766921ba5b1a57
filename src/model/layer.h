// The module tree. Layers declare parameters (shape, initialisation); memory and values come later, on the right
// device, each parameter seeded by its own name, so that every layout of the same model starts from the same weights.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/tensor_ranks.h"
#include "runtime/element_runs.h"
#include "runtime/span.h"

namespace trainctl::model {

/// How a parameter's first values are drawn.
struct Init {
  enum class Kind { constant, uniform, normal } kind = Kind::constant;
  double a = 0;                // constant: the value; uniform: low; normal: mean
  double b = 0;                // uniform: high; normal: standard deviation
  std::int64_t zero_row = -1;  // set to 0 after all else; -1: none

  static constexpr Init constant(double value) { return {Kind::constant, value, 0}; }
  static constexpr Init uniform(double bound) { return {Kind::uniform, -bound, bound}; }
  static constexpr Init normal(double mean, double std) { return {Kind::normal, mean, std}; }
  constexpr Init with_zero_row(std::int64_t row) const { return {kind, a, b, row}; }
};

/// What a rank has of a parameter that is split over ranks: the same range of each of some equal sections of a dim.
struct Shard {
  std::vector<std::int64_t> shape;  // of the whole
  std::int64_t dim = 0;
  std::int64_t sections = 1;  // 3: queries, keys and values in one matrix
  FeatureRange range{};       // of a section

  /// Returns this rank's part of the whole.
  at::Tensor of(const at::Tensor& whole) const;
  /// Returns which elements of the whole, row-major, that is.
  runtime::ElementRuns runs() const;
};

/// A tensor of a layer, by its local name.
struct TensorDecl {
  std::string name;
  at::Tensor value;  // on the meta device until materialised
  Init init;
  at::Tensor stored{};                  // first values, on the CPU; undefined: `init` draws them
  double lr_scale = 1;                  // of the optimizer's learning rate: muP
  bool trainable = true;                // of a parameter: whether it gets a gradient; decided before it is materialised
  bool is_dropped = false;              // has no values any more and is listed nowhere
  std::optional<Shard> shard{};         // none: the value is whole
  bool is_copy = false;                 // whole, and the first of the ranks that share layers has it too
  bool sums_gradient = false;           // whole, and each of these ranks computes its gradient from its own tokens
  std::optional<c10::Device> device{};  // none: the model's
};

/// Takes the values, and the place in every list, from a parameter or buffer.
void drop(TensorDecl& decl);

class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  using TensorVisitor = std::function<void(const std::string& full_name, TensorDecl&)>;
  using LayerVisitor = std::function<void(const std::string& full_name, Layer&)>;
  /// In declaration order, with names joined by dots as in PyTorch's state_dict.
  void visit_parameters(const TensorVisitor& visit, const std::string& prefix = "");
  void visit_buffers(const TensorVisitor& visit, const std::string& prefix = "");
  /// Its own parameters, without those of the layers below it.
  void visit_own_parameters(const std::function<void(TensorDecl&)>& visit);
  /// This layer (named `prefix`) and all below it, parents first.
  void visit_layers(const LayerVisitor& visit, const std::string& prefix = "");

  /// What the layer's work is called in profiles; empty: it is part of its parent's.
  const std::string& span_name() const { return span_name_; }
  void set_span_name(std::string name) { span_name_ = std::move(name); }

  /// Keeps this rank's part of the layer, where its features or heads are split; layers below it are split by their own
  /// parents or themselves. Before it is materialised, once.
  virtual void split(const TensorRanksPtr&) {}

  /// What becomes of a placed layer's output.
  enum class Output { stays, returns };
  /// From now on the layer, with all below it, computes on this device, to which it brings its input. The output stays
  /// there, or returns to where the input was. Before it is materialised.
  void place(c10::Device device, Output output);
  bool is_placed() const { return device_.has_value(); }
  /// Returns the input where the layer computes.
  at::Tensor bring(const at::Tensor& input) const { return device_ ? input.to(*device_) : input; }

  /// Its own parameters and buffers are gone: they have no values, and are listed nowhere.
  void drop_state();

  bool is_training() const { return training_; }
  void set_training(bool training);  // NOLINT: train()/eval() of PyTorch, for the whole subtree

 protected:
  /// Both references stay valid for the layer's life.
  at::Tensor& parameter(std::string name, std::vector<std::int64_t> shape, Init init);
  at::Tensor& buffer(std::string name, std::vector<std::int64_t> shape, at::ScalarType dtype, double value);
  /// A parameter and a buffer whose first values are there. A parameter is trained if they require a gradient.
  at::Tensor& parameter(std::string name, const at::Tensor& first_values);
  at::Tensor& buffer(std::string name, const at::Tensor& first_values);
  /// Keeps this rank's range of each section of the parameter's dim.
  void keep_part(const at::Tensor& parameter, std::int64_t dim, const TensorRanks& ranks, std::int64_t sections = 1);

  template <class L, class... Args>
  L& child(std::string name, Args&&... args) {
    auto layer = std::make_unique<L>(std::forward<Args>(args)...);
    L& reference = *layer;
    children_.emplace_back(std::move(name), std::move(layer));
    return reference;
  }
  void remove_child(const Layer& layer);
  /// Puts a layer in as a child without a name: its state is listed with this layer's own.
  void adopt(std::unique_ptr<Layer> layer) { children_.emplace_back("", std::move(layer)); }

  /// Calls `work` where the layer is, with the input there.
  template <class Work>
  at::Tensor work_where_placed(const at::Tensor& input, const Work& work) const {
    const c10::OptionalDeviceGuard guard(device_);
    const at::Tensor output = work(bring(input));
    return output_ == Output::stays ? output : output.to(input.device());
  }

 private:
  std::deque<TensorDecl> parameters_;
  std::deque<TensorDecl> buffers_;
  std::vector<std::pair<std::string, std::unique_ptr<Layer>>> children_;
  std::string span_name_;
  bool training_ = true;
  std::optional<c10::Device> device_;  // none: where its input is
  Output output_ = Output::stays;
};

/// The stretch in which a layer works.
class LayerSpan {
 public:
  explicit LayerSpan(const Layer& layer) {
    if (!layer.span_name().empty()) span_.emplace(layer.span_name().c_str());
  }

 private:
  std::optional<runtime::Span> span_;
};

class UnaryLayer;

/// Does a layer's work in its place: in another precision, or with other weights for a while. It may call the layer's
/// compute().
class LayerOverride : public Layer {
 public:
  virtual at::Tensor compute(UnaryLayer& layer, const at::Tensor& input) = 0;
};

/// A layer from one tensor to one tensor.
class UnaryLayer : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input) {
    const LayerSpan span(*this);
    const auto work = [this](const at::Tensor& value) {
      return stand_in_ == nullptr ? compute(value) : stand_in_->compute(*this, value);
    };
    return is_placed() ? work_where_placed(input, work) : work(input);
  }

  /// What forward() does where nothing stands in.
  virtual at::Tensor compute(const at::Tensor& input) = 0;

  /// Whether forward() does other work than compute(), or elsewhere.
  bool is_replaced() const { return stand_in_ != nullptr || is_placed(); }
  /// Null: the layer does its work itself.
  LayerOverride* stand_in() const { return stand_in_; }
  /// In place of another, if there is one. Its parameters and buffers are listed under this layer's name.
  void set_override(std::unique_ptr<LayerOverride> stand_in) {
    if (stand_in_ != nullptr) remove_child(*stand_in_);
    stand_in_ = stand_in.get();
    if (stand_in != nullptr) adopt(std::move(stand_in));
  }

 private:
  LayerOverride* stand_in_ = nullptr;
};

}  // namespace trainctl::model
