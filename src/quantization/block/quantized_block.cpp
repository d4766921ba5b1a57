#include "quantization/block/quantized_block.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <deque>
#include <set>

#include "core/error.h"
#include "kernels/portable.h"
#include "quantization/layer/portable_rounding.h"
#include "quantization/workarounds/tie_free_scales.h"

namespace trainctl::quantization {
namespace {

/// An op with the weights, scales and levels of its eight-bit form.
struct Step {
  BlockOp op;
  bool is_quantizable = false;  // the user wants it, and there is an operator for it
  bool is_quantized = false;    // for now
  std::int64_t num_weights = 0;
  bool slots_are_own() const;    // its output has levels of its own
  at::Tensor* weight = nullptr;  // int8, or float where it isn't quantizable
  at::Tensor* scales = nullptr;
  at::Tensor* bias = nullptr;
  std::vector<at::Tensor*> norm{};  // weight, bias, mean, variance
  QParams levels{};
  PackedConvolution convolution{};
  PackedLinear linear{};
};

/// Returns "conv1.weight", or "weight" for the block's own parameters.
std::string inside(const std::string& name, const std::string& part) {
  return name.empty() ? part : name + "." + part;
}

/// Returns whether there is an operator between levels.
bool has_levels(const Computation& what) {
  return !std::holds_alternative<LayerOp>(what) && !std::holds_alternative<ConcatOp>(what) &&
         !std::holds_alternative<MultiplyOp>(what);
}

/// Returns whether an op has no layer's name, but a number among those of its kind in the block.
bool is_numbered(const Computation& what) {
  return std::holds_alternative<AddOp>(what) || std::holds_alternative<ConcatOp>(what) ||
         std::holds_alternative<MultiplyOp>(what) || std::holds_alternative<AveragePoolOp>(what);
}

bool Step::slots_are_own() const {
  return !passes_levels(op.what);
}

at::Tensor bias_of(const Computation& what) {
  if (const auto* convolution = std::get_if<ConvolutionOp>(&what)) return convolution->bias;
  if (const auto* linear = std::get_if<LinearOp>(&what)) return linear->bias;
  return {};
}
at::Tensor weight_of(const Computation& what) {
  if (const auto* convolution = std::get_if<ConvolutionOp>(&what)) return convolution->weight;
  if (const auto* linear = std::get_if<LinearOp>(&what)) return linear->weight;
  return {};
}

class ByteBlock final : public QuantizedBlock {
 public:
  ByteBlock(model::UnaryLayer& layer, BlockGraph graph, const QuantizedBlockOptions& options)
      : layer_(layer),
        options_(options),
        graph_(std::move(graph)),
        uses_(count_uses(graph_)),
        sources_(sources_of(graph_)) {
    observers_.assign(graph_.num_values, Observer(options.observer));
    levels_.resize(graph_.num_values);
    slots_.resize(graph_.num_values);
    slots_[0] = levels_slots(inside(options_.label, "input"));
    for (const BlockOp& op : graph_.ops) add(op);
    options_.is_quantized = {};
    if (!options_.trained) options_.trained = [](const std::string&) { return nullptr; };
  }

  at::Tensor compute(model::UnaryLayer&, const at::Tensor& input) override {
    std::vector<at::Tensor> values(graph_.num_values);
    std::vector<std::size_t> left = uses_;
    values[0] = input;
    if (mode_ == LayerMode::watched) observers_[0].observe(as_float(input));
    for (Step& step : steps_) {
      values[step.op.output] = run(step, values);
      if (mode_ == LayerMode::watched && step.slots_are_own())
        observers_[step.op.output].observe(values[step.op.output]);
      for (const std::size_t value : step.op.inputs)
        if (--left[value] == 0) values[value].reset();
    }
    const at::Tensor& result = values[graph_.output];
    return options_.result == BlockResult::floats || mode_ != LayerMode::quantized ? as_float(result) : result;
  }

  const QParamBuffers& output_levels() const override { return slots_[graph_.output]; }

  std::vector<QuantizedUnit> units() const override {
    std::vector<QuantizedUnit> found;
    for (const Step& step : steps_)
      if (step.is_quantizable && step.num_weights > 0) found.push_back({step.op.name, step.num_weights});
    return found;
  }

  void set_mode(LayerMode mode, const UnitFilter& chosen) override {
    mode_ = mode;
    for (Step& step : steps_)
      step.is_quantized = mode == LayerMode::quantized && step.is_quantizable && chosen(step.op.name);
  }

  void convert() override {
    const std::vector<std::optional<QParams>> trained = trained_levels();
    slots_[0].write(options_.given != nullptr ? options_.given->read("the block before")
                                              : trained[0].value_or(observers_[0].levels()));
    for (const Step& step : steps_)
      if (step.slots_are_own())
        slots_[step.op.output].write(trained[step.op.output].value_or(observers_[step.op.output].levels()));
    for (const Step& step : steps_)
      if (options_.engine_workarounds && std::holds_alternative<AddOp>(step.op.what) && !trained[step.op.output])
        relate_levels(step);
    for (Step& step : steps_) {
      const at::Tensor weight = weight_of(step.op.what);
      if (!weight.defined()) continue;
      at::Tensor bias = bias_of(step.op.what);
      if (step.is_quantizable) {
        const Int8Product product = quantize_product(weight, bias,
                                                     {.input = slots_[step.op.inputs[0]].scale(),
                                                      .output = slots_[step.op.output].scale(),
                                                      .given = given_scales(step),
                                                      .are_tie_free = options_.engine_workarounds});
        *step.weight = product.weight.levels;
        *step.scales = product.weight.scales;
        bias = product.bias;
      } else {
        *step.weight = weight.detach().clone();
      }
      if (step.bias != nullptr) *step.bias = bias.detach().clone();
    }
    for (Step& step : steps_) keep_norm(step);
  }

  void prepare() override {
    levels_[0] = slots_[0].read("the input");
    for (Step& step : steps_) {
      if (step.slots_are_own()) step.levels = slots_[step.op.output].read(step.op.name);
      levels_[step.op.output] = step.slots_are_own() ? step.levels : levels_[sources_[step.op.output]];
      if (!step.is_quantizable) {
        take_float(step);
      } else if (const auto* convolution = std::get_if<ConvolutionOp>(&step.op.what)) {
        step.convolution = pack_convolution({*step.weight, *step.scales}, bias(step), convolution->shape);
      } else if (std::holds_alternative<LinearOp>(step.op.what)) {
        step.linear = pack_linear({*step.weight, *step.scales}, bias(step));
      }
      if (!step.norm.empty()) {
        NormStatistics& norm = std::get<BatchNormOp>(step.op.what).norm;
        norm = {*step.norm[0], *step.norm[1], *step.norm[2], *step.norm[3], norm.epsilon};
      }
    }
  }

  void finish() override {
    std::set<const model::Layer*> in_floats;
    for (const Step& step : steps_)
      if (const auto* kept = std::get_if<LayerOp>(&step.op.what))
        kept->layer->visit_layers([&](const std::string&, model::Layer& below) { in_floats.insert(&below); });
    layer_.visit_layers([&](const std::string&, model::Layer& below) {
      if (dynamic_cast<model::LayerOverride*>(&below) == nullptr && !in_floats.contains(&below)) below.drop_state();
    });
    set_mode(LayerMode::quantized, [](const std::string&) { return true; });
    for (Step& step : steps_) {
      if (!step.is_quantizable) continue;
      if (auto* convolution = std::get_if<ConvolutionOp>(&step.op.what))
        convolution->weight = convolution->bias = at::Tensor();
      else if (auto* linear = std::get_if<LinearOp>(&step.op.what))
        linear->weight = linear->bias = at::Tensor();
    }
  }

 private:
  QParamBuffers levels_slots(const std::string& name) {
    at::Tensor& scale = buffer(name + "_scale", {}, at::kFloat, 1);
    return {scale, buffer(name + "_zero_point", {}, at::kLong, 0)};
  }

  void add(const BlockOp& op) {
    Step& step = steps_.emplace_back();
    step.op = op;
    if (passes_levels(op.what)) {
      slots_[op.output] = slots_[sources_[op.output]];
      return;
    }
    const std::string& name = op.name;
    step.is_quantizable = has_levels(op.what) && options_.is_quantized(name);
    slots_[op.output] = levels_slots(inside(is_numbered(op.what) ? inside(options_.label, name) : name, "output"));
    if (const at::Tensor weight = weight_of(op.what); weight.defined()) {
      step.num_weights = weight.numel();
      step.weight =
          &buffer(inside(name, "weight"), weight.sizes().vec(), step.is_quantizable ? at::kChar : at::kFloat, 0);
      if (step.is_quantizable) step.scales = &buffer(inside(name, "weight_scale"), {weight.size(0)}, at::kFloat, 1);
      if (bias_of(op.what).defined()) step.bias = &buffer(inside(name, "bias"), {weight.size(0)}, at::kFloat, 0);
    }
    if (const auto* norm = std::get_if<BatchNormOp>(&op.what))
      for (const char* part : {"weight", "bias", "running_mean", "running_var"})
        step.norm.push_back(&buffer(inside(name, part), {norm->norm.weight.size(0)}, at::kFloat, 0));
  }

  static at::Tensor bias(const Step& step) { return step.bias == nullptr ? at::Tensor() : *step.bias; }

  /// Returns the weights' scales of a training for eight bits, as they are after folding; undefined without such a
  /// training.
  at::Tensor given_scales(const Step& step) const {
    const TrainedLevels* trained = options_.trained(step.op.name);
    if (trained == nullptr || !trained->weight_scales.defined()) return {};
    const auto* convolution = std::get_if<ConvolutionOp>(&step.op.what);
    const at::Tensor& folded = convolution != nullptr ? convolution->folded : std::get<LinearOp>(step.op.what).folded;
    if (!folded.defined()) return trained->weight_scales;
    return trained->weight_scales.mul(folded.abs()).clamp_min(1e-12);
  }

  /// Returns the levels of each value that training rounded: those of its first reader.
  std::vector<std::optional<QParams>> trained_levels() const {
    std::vector<std::optional<QParams>> levels(graph_.num_values);
    const std::vector<std::size_t> ranges = ranges_of(graph_);
    const auto set = [&](std::size_t value, const std::optional<QParams>& found) {
      if (ranges[value] != sources_[value]) return;  // a mean or a ReLU, which has the levels of what it is of
      if (std::optional<QParams>& place = levels[sources_[value]]; !place) place = found;
    };
    for (const Step& step : steps_) {
      if (!step.slots_are_own()) continue;
      if (const TrainedLevels* own = options_.trained(step.op.name)) {
        if (step.num_weights > 0) set(step.op.inputs[0], own->input);
        set(step.op.output, own->output);
      }
      if (const TrainedLevels* norm = options_.trained(step.op.norm_name)) set(step.op.output, norm->output);
    }
    set(graph_.output, options_.trained_result);
    return levels;
  }

  /// Relates the levels of a sum, so that no sum lies in the middle between two levels. Only the levels of this block's
  /// own products may change.
  void relate_levels(const Step& sum) {
    std::size_t moved = sources_[sum.op.inputs[0]];
    std::size_t kept = sources_[sum.op.inputs[1]];
    if (!is_of_product(moved)) std::swap(moved, kept);
    QParams of_moved = slots_[moved].read(sum.op.name);
    QParams of_sum = slots_[sum.op.output].read(sum.op.name);
    const SumScales scales = middle_free({slots_[kept].read(sum.op.name).scale, of_moved.scale, of_sum.scale});
    of_moved.scale = scales.moved;
    of_sum.scale = scales.sum;
    if (is_of_product(moved)) slots_[moved].write(of_moved);
    slots_[sum.op.output].write(of_sum);
  }
  bool is_of_product(std::size_t value) const {
    return std::any_of(steps_.begin(), steps_.end(),
                       [&](const Step& step) { return step.op.output == value && step.num_weights > 0; });
  }

  static void keep_norm(Step& step) {
    if (step.norm.empty()) return;
    const NormStatistics& norm = std::get<BatchNormOp>(step.op.what).norm;
    const at::Tensor parts[] = {norm.weight, norm.bias, norm.mean, norm.variance};
    for (std::size_t i = 0; i < 4; ++i) *step.norm[i] = parts[i].detach().clone();
  }

  static void take_float(Step& step) {
    if (auto* convolution = std::get_if<ConvolutionOp>(&step.op.what)) {
      convolution->weight = *step.weight;
      convolution->bias = bias(step);
    } else if (auto* linear = std::get_if<LinearOp>(&step.op.what)) {
      linear->weight = *step.weight;
      linear->bias = bias(step);
    }
  }

  static at::Tensor as_float(const at::Tensor& value) { return value.is_quantized() ? value.dequantize() : value; }
  at::Tensor as_levels(std::size_t number, const at::Tensor& value) const {
    if (value.is_quantized()) return value;
    return kernels::PortableOperators::are_wanted() ? round_to(value, slots_[number], options_.observer.activations)
                                                    : to_levels(value, levels_[number]);
  }

  at::Tensor run(Step& step, const std::vector<at::Tensor>& values) const {
    std::vector<at::Tensor> inputs;
    if (!step.is_quantized) {
      const bool passes = passes_levels(step.op.what);
      for (const std::size_t value : step.op.inputs) inputs.push_back(passes ? values[value] : as_float(values[value]));
      if (step.num_weights > 0 && values[step.op.inputs[0]].is_quantized() && kernels::PortableOperators::are_wanted())
        inputs[0] = marked_float(inputs[0], step.op.inputs[0]);
      return trainctl::quantization::compute(step.op, inputs);
    }
    if (std::holds_alternative<AveragePoolOp>(step.op.what)) {
      const at::Tensor means = trainctl::quantization::compute(step.op, {as_float(values[step.op.inputs[0]])});
      return as_levels(step.op.output, means);
    }
    if (kernels::PortableOperators::are_wanted()) return run_portably(step, values);
    for (const std::size_t value : step.op.inputs) inputs.push_back(as_levels(value, values[value]));
    return run_quantized(step, inputs);
  }

  /// Returns floats of levels, for a product that is kept in floats. ONNX Runtime rounds the weights of a product
  /// between DequantizeLinear and QuantizeLinear, with one scale for all. One more operator, which changes no value,
  /// prevents that.
  at::Tensor marked_float(const at::Tensor& value, std::size_t number) const {
    const QParams& levels = levels_[number];
    return value.clamp_min(-levels.scale * static_cast<double>(levels.zero_point + 1));
  }

  /// Computes in floats between roundings.
  at::Tensor run_portably(const Step& step, const std::vector<at::Tensor>& values) const {
    std::vector<at::Tensor> inputs;
    for (const std::size_t value : step.op.inputs) inputs.push_back(as_levels(value, values[value]).dequantize());
    BlockOp op = step.op;
    if (auto* convolution = std::get_if<ConvolutionOp>(&op.what)) {
      convolution->weight = floats_of({*step.weight, *step.scales});
      convolution->bias = bias(step);
    } else if (auto* linear = std::get_if<LinearOp>(&op.what)) {
      linear->weight = floats_of({*step.weight, *step.scales});
      linear->bias = bias(step);
    }
    return round_to(trainctl::quantization::compute(op, inputs), slots_[step.op.output], options_.observer.activations);
  }

  static at::Tensor run_quantized(const Step& step, const std::vector<at::Tensor>& inputs) {
    const QParams& out = step.levels;
    const Then then = step.op.then_relu ? Then::relu : Then::nothing;
    if (step.convolution)
      return then == Then::relu ? step.convolution->apply_relu(inputs[0], out.scale, out.zero_point)
                                : step.convolution->apply(inputs[0], out.scale, out.zero_point);
    if (step.linear)
      return then == Then::relu ? step.linear->apply_relu(inputs[0], out.scale, out.zero_point)
                                : step.linear->apply(inputs[0], out.scale, out.zero_point);
    if (const auto* norm = std::get_if<BatchNormOp>(&step.op.what))
      return batch_norm_quantized(inputs[0], norm->norm, then, out);
    return add_quantized(inputs[0], inputs[1], then, out);
  }

  model::UnaryLayer& layer_;
  QuantizedBlockOptions options_;
  BlockGraph graph_;
  std::vector<std::size_t> uses_;
  std::vector<std::size_t> sources_;  // of each value: the one whose levels it has
  std::vector<Observer> observers_;   // of each value
  std::vector<QParamBuffers> slots_;  // of each value
  std::vector<QParams> levels_;       // the same, read
  std::deque<Step> steps_;
  LayerMode mode_ = LayerMode::original;
};

}  // namespace

std::unique_ptr<QuantizedBlock> quantized_block(model::UnaryLayer& layer, BlockGraph graph,
                                                const QuantizedBlockOptions& options) {
  return std::make_unique<ByteBlock>(layer, std::move(graph), options);
}

}  // namespace trainctl::quantization
