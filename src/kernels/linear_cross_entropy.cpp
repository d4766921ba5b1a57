#include "kernels/linear_cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "kernels/distillation.h"
#include "kernels/matrix_product.h"
#include "kernels/softmax_gradient.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kChunkBytes = 128 << 20;  // with a quarter of it, MKL's products take a tenth longer
constexpr std::int64_t kLeastRows = 128;         // with fewer rows, products with the weight are bound by memory

/// Returns the dtype of matrix products: autocast's dtype if autocast is enabled.
at::ScalarType product_dtype(const at::Tensor& hidden, const at::Tensor& weight) {
  const auto device = hidden.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : weight.scalar_type();
}

/// What rows of logits are made of.
struct Projection {
  at::Tensor hidden;  // [N, D], in the products' dtype
  at::Tensor weight;  // [V, D], in the products' dtype
  at::Tensor bias;    // [V], in the logits' dtype, or undefined
  double softcap = 0;
};

struct Inputs {
  at::Tensor hidden;                  // [N, D], in the products' dtype
  at::Tensor weight;                  // [V, D], in the products' dtype
  at::Tensor bias;                    // [V], in the logits' dtype, or undefined
  at::Tensor targets;                 // [N]
  LinearCrossEntropyOptions options;  // of which `teacher` isn't looked at
  std::optional<Projection> teacher{};
  at::Tensor row_weights{};  // [N], in the logits' dtype: how much each row's loss counts; undefined: as one

  std::int64_t num_classes() const { return weight.size(0); }
  at::ScalarType logits_dtype() const { return weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
  /// Ranks with parts of the vocabulary, which may differ in size, take as many rows as each other.
  std::int64_t rows_at_once() const {
    if (options.chunk_size > 0) return options.chunk_size;
    const std::int64_t classes = options.part == nullptr ? num_classes() : options.part->size;
    const std::int64_t most = std::max(kLeastRows, kChunkBytes / (classes * 4));
    const std::int64_t num_chunks = std::max<std::int64_t>(1, (hidden.size(0) + most - 1) / most);
    return (hidden.size(0) + num_chunks - 1) / num_chunks;
  }
};

/// Gradients of the sum of losses, times a scale.
struct Gradients {
  at::Tensor hidden;  // undefined if not needed
  at::Tensor weight;
  at::Tensor bias;
  double scale = 1;
};

/// Computes logits [R, V] in `dtype`.
at::Tensor logits_of(const Projection& of, at::ScalarType dtype) {
  at::Tensor logits = matrix_product(of.hidden, of.weight.t()).to(dtype);
  if (of.bias.defined()) logits.add_(of.bias);
  if (of.softcap > 0) logits.div_(of.softcap).tanh_().mul_(of.softcap);
  return logits;
}

/// Whether to_softmax_gradient() makes the gradient.
bool has_own_gradient(const Inputs& in) {
  return in.weight.device().is_cpu() && in.logits_dtype() == at::kFloat && in.options.part == nullptr;
}

/// Whether that reads the product as it is, and adds the bias meanwhile, since nothing else needs the logits.
bool reads_products(const Inputs& in) {
  return has_own_gradient(in) && in.weight.scalar_type() != at::kHalf && !in.teacher && in.options.softcap == 0;
}

enum class Gradient { needed, not_needed };

/// Computes the logits [R, V] of some rows in float or double, or those that are still a product.
at::Tensor logits_of(const Inputs& in, const at::Tensor& hidden, Gradient gradient) {
  if (gradient == Gradient::needed && reads_products(in)) return matrix_product(hidden, in.weight.t());
  return logits_of({.hidden = hidden, .weight = in.weight, .bias = in.bias, .softcap = in.options.softcap},
                   in.logits_dtype());
}

/// Computes the losses [R] of rows from log-probabilities.
at::Tensor losses_of(const Inputs& in, const at::Tensor& log_probs, const at::Tensor& index) {
  const double smoothing = in.options.label_smoothing;
  const at::Tensor loss = log_probs.gather(1, index).squeeze(1).neg();
  return smoothing == 0 ? loss : loss.mul(1 - smoothing).sub(log_probs.mean(1), smoothing);
}

/// Does what to_gradient() does if each rank has some of the logits.
at::Tensor to_gradient_of_part(const Inputs& in, at::Tensor& logits, const at::Tensor& index) {
  const VocabularyPart& part = *in.options.part;
  const double smoothing = in.options.label_smoothing;
  const at::Tensor local = index.sub(part.first);  // [R, 1]
  const at::Tensor is_own = local.ge(0).logical_and_(local.lt(in.num_classes())).to(logits.scalar_type());
  const at::Tensor own_index = local.clamp(0, in.num_classes() - 1);
  at::Tensor largest = logits.amax(1, /*keepdim=*/true);  // [R, 1]
  part.max(largest);
  logits.sub_(largest);
  const at::Tensor target = logits.gather(1, own_index).mul_(is_own);
  const at::Tensor all = smoothing > 0 ? logits.sum(1, /*keepdim=*/true) : target;
  logits.exp_();
  at::Tensor sums = at::cat({logits.sum(1, /*keepdim=*/true), target, all}, 1);  // [R, 3]
  part.sum(sums);
  const at::Tensor log_sum = sums.select(1, 0).log();
  const at::Tensor loss = log_sum.sub(sums.select(1, 1));
  logits.div_(sums.narrow(1, 0, 1));
  if (smoothing > 0) logits.sub_(smoothing / static_cast<double>(part.size));
  logits.scatter_add_(1, own_index, is_own.mul(smoothing - 1));
  if (smoothing == 0) return loss;
  const at::Tensor mean = log_sum.sub(sums.select(1, 2), 1 / static_cast<double>(part.size));
  return loss.mul(1 - smoothing).add(mean, smoothing);
}

/// Replaces logits by their gradient in place and returns the losses [R]. Results of ignored rows are undefined.
at::Tensor to_gradient(const Inputs& in, at::Tensor& logits, const at::Tensor& index) {
  const double smoothing = in.options.label_smoothing;
  if (in.options.part != nullptr) return to_gradient_of_part(in, logits, index);
  if (has_own_gradient(in))
    return to_softmax_gradient(logits, index, smoothing, reads_products(in) ? in.bias : at::Tensor());
  logits = at::_log_softmax(logits, 1, /*half_to_float=*/false);
  at::Tensor losses = losses_of(in, logits, index);
  logits.exp_();
  if (smoothing > 0) logits.sub_(smoothing / static_cast<double>(in.num_classes()));
  logits.scatter_add_(1, index, at::empty_like(index, logits.options()).fill_(smoothing - 1));
  return losses;
}

/// Some consecutive rows.
struct Chunk {
  std::int64_t begin;
  std::int64_t count;
};

/// Does what to_gradient() does for rows that are trained towards a teacher's, too.
at::Tensor to_gradient_beside_teacher(const Inputs& in, const Chunk& chunk, at::Tensor& logits,
                                      const at::Tensor& index) {
  const LinearTeacher& options = *in.options.teacher;
  Projection rows = *in.teacher;
  rows.hidden = rows.hidden.narrow(0, chunk.begin, chunk.count);
  const DistillationRows towards = distillation_rows(logits, logits_of(rows, in.logits_dtype()), options.temperature);
  const at::Tensor losses = to_gradient(in, logits, index);
  logits.mul_(1 - options.share).add_(towards.gradient, options.share);
  return losses.mul(1 - options.share).add_(towards.losses, options.share);
}

/// Returns the derivative of capped logits: 1 - (logit / softcap)². Undefined without a soft cap.
at::Tensor softcap_slope(const Inputs& in, const at::Tensor& logits) {
  if (in.options.softcap == 0) return {};
  return logits.div(in.options.softcap).square_().neg_().add_(1);
}

/// Computes the losses [R] of some rows.
at::Tensor losses_of_chunk(const Inputs& in, const Chunk& chunk, at::Tensor& logits, const at::Tensor& index) {
  if (in.teacher) return to_gradient_beside_teacher(in, chunk, logits, index);
  if (in.options.part != nullptr) return to_gradient_of_part(in, logits, index);
  return losses_of(in, at::_log_softmax(logits, 1, /*half_to_float=*/false), index);
}

/// Adds the sum of the rows that count. Of bf16, the rows are summed in float and rounded once.
void add_to_bias_gradient(const at::Tensor& logits, const at::Tensor& valid, at::Tensor& gradient) {
  if (logits.scalar_type() == gradient.scalar_type())
    gradient.addmv_(logits.t(), valid);
  else
    gradient.add_(at::mv(logits.t(), valid.to(logits.scalar_type())));
}

/// Processes all rows once, and returns the sum of their losses. `gradients` holds tensors for the gradients that are
/// needed, with zeros in that of the bias. Copies the losses into `row_losses` [N], if that is defined.
at::Tensor run(const Inputs& in, Gradients& gradients, const at::Tensor& row_losses = {}) {
  at::Tensor total = at::zeros({}, in.weight.options().dtype(in.logits_dtype()));
  const std::int64_t rows = in.hidden.size(0);
  const std::int64_t step = in.rows_at_once();
  if (rows == 0 && gradients.weight.defined()) gradients.weight.zero_();
  const bool is_needed = gradients.hidden.defined() || gradients.weight.defined() || gradients.bias.defined();
  const Gradient need = is_needed ? Gradient::needed : Gradient::not_needed;
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t count = std::min(step, rows - begin);
    const at::Tensor hidden = in.hidden.narrow(0, begin, count);
    const at::Tensor targets = in.targets.narrow(0, begin, count);
    at::Tensor valid = targets.ge(0).to(in.logits_dtype());  // [R]
    if (in.row_weights.defined()) valid.mul_(in.row_weights.narrow(0, begin, count));
    const at::Tensor index = targets.clamp_min(0).unsqueeze(1);  // [R, 1]
    at::Tensor logits = logits_of(in, hidden, need);             // [R, V]
    if (need == Gradient::not_needed) {
      const at::Tensor losses = losses_of_chunk(in, {begin, count}, logits, index).mul(valid);
      if (row_losses.defined()) row_losses.narrow(0, begin, count).copy_(losses);
      total.add_(losses.sum());
      continue;
    }
    const at::Tensor slope_of_cap = softcap_slope(in, logits);
    const at::Tensor losses =
        in.teacher ? to_gradient_beside_teacher(in, {begin, count}, logits, index) : to_gradient(in, logits, index);
    total.add_(losses.mul(valid).sum());
    if (slope_of_cap.defined()) logits.mul_(slope_of_cap);
    const at::Tensor slope = logits.to(in.weight.scalar_type());
    const at::Tensor scales = gradients.scale == 1 ? valid : valid.mul(gradients.scale);
    if (gradients.bias.defined()) add_to_bias_gradient(logits, scales, gradients.bias);
    const at::Tensor mask = scales.unsqueeze(1).to(in.weight.scalar_type());  // [R, 1]
    if (gradients.hidden.defined())
      gradients.hidden.narrow(0, begin, count).copy_(matrix_product(slope, in.weight).mul_(mask));
    if (gradients.weight.defined())
      add_matrix_product(gradients.weight, slope.t(), hidden.mul(mask), begin == 0 ? 0 : 1);
  }
  return total;
}

/// Whether the input needs a gradient. Gradient mode is off inside forward(), but tensors still record whether they are
/// part of a graph.
bool wants_gradient(const at::Tensor& input) {
  return input.requires_grad();
}

/// Returns what the sum will most likely be multiplied by: whoever trains takes the mean over the rows. To have it in
/// the gradients already saves a pass over that of the weight. Not for fp16, where it might leave the range.
double likely_scale(const Inputs& in) {
  const bool suits = in.weight.is_cpu() && in.logits_dtype() == at::kFloat && in.weight.scalar_type() != at::kHalf;
  return suits && in.hidden.size(0) > 0 ? 1.0F / static_cast<float>(in.hidden.size(0)) : 1;
}

/// Multiplies the gradients by what their scale lacks of the wanted one.
void rescale(Gradients& gradients, const at::Tensor& wanted) {
  const at::Tensor factor = gradients.scale == 1 ? wanted : wanted.div(gradients.scale);
  if (gradients.scale != 1 && !runtime::is_fake(factor) && factor.item<double>() == 1) return;
  // In place is safe: only this node holds the tensors, and a graph runs backward once.
  for (at::Tensor* gradient : {&gradients.hidden, &gradients.weight, &gradients.bias})
    if (gradient->defined()) gradient->mul_(factor.to(gradient->scalar_type()));
}

struct LinearCrossEntropy final : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Inputs& inputs) {
    RECORD_FUNCTION("trainctl::linear_cross_entropy", std::vector<c10::IValue>());
    Gradients gradients{.scale = likely_scale(inputs)};
    if (wants_gradient(hidden)) gradients.hidden = at::empty_like(hidden);
    if (wants_gradient(weight)) gradients.weight = at::empty_like(weight);
    if (bias && wants_gradient(*bias)) gradients.bias = at::zeros({inputs.num_classes()}, inputs.bias.options());
    at::Tensor total = run(inputs, gradients);
    context->save_for_backward({gradients.hidden, gradients.weight, gradients.bias});
    context->saved_data["scale"] = gradients.scale;
    return total;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    Gradients gradients{
        .hidden = saved[0], .weight = saved[1], .bias = saved[2], .scale = context->saved_data["scale"].toDouble()};
    rescale(gradients, output_gradients[0]);
    return {gradients.hidden, gradients.weight, gradients.bias, at::Tensor()};
  }
};

/// What the backward pass of LinearCrossEntropyRows needs.
struct RowsToRepeat final : torch::CustomClassHolder {
  explicit RowsToRepeat(Inputs rows) : inputs(std::move(rows)) {}

  Inputs inputs;
  // The types of the gradients; none where one is not needed.
  std::optional<at::ScalarType> hidden;
  std::optional<at::ScalarType> weight;
  bool bias = false;
};

at::Tensor row_losses_of(const Inputs& inputs) {
  const at::Tensor losses = at::empty({inputs.hidden.size(0)}, inputs.weight.options().dtype(inputs.logits_dtype()));
  Gradients nothing;
  run(inputs, nothing, losses);
  return losses;
}

/// The losses of the rows. How much each counts is known in the backward pass only.
struct LinearCrossEntropyRows final : torch::autograd::Function<LinearCrossEntropyRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Inputs& inputs) {
    RECORD_FUNCTION("trainctl::linear_cross_entropy_rows", std::vector<c10::IValue>());
    auto rows = c10::make_intrusive<RowsToRepeat>(inputs);
    if (wants_gradient(hidden)) rows->hidden = hidden.scalar_type();
    if (wants_gradient(weight)) rows->weight = weight.scalar_type();
    rows->bias = bias && wants_gradient(*bias);
    context->saved_data["rows"] = c10::IValue::make_capsule(std::move(rows));
    return row_losses_of(inputs);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto rows = c10::static_intrusive_pointer_cast<RowsToRepeat>(context->saved_data["rows"].toCapsule());
    Inputs inputs = rows->inputs;
    inputs.row_weights = output_gradients[0];
    Gradients gradients;
    if (rows->hidden) gradients.hidden = at::empty_like(inputs.hidden, inputs.hidden.options().dtype(*rows->hidden));
    if (rows->weight) gradients.weight = at::empty_like(inputs.weight, inputs.weight.options().dtype(*rows->weight));
    if (rows->bias) gradients.bias = at::zeros({inputs.num_classes()}, inputs.bias.options());
    run(inputs, gradients);
    return {gradients.hidden, gradients.weight, gradients.bias, at::Tensor()};
  }
};

/// Checks the shapes, and brings all to `dtype`, that of the products.
Inputs inputs_of(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& targets,
                 at::ScalarType dtype, const LinearCrossEntropyOptions& options) {
  core::ensure(hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1) && targets.dim() == 1 &&
                   targets.size(0) == hidden.size(0),
               "linear_cross_entropy takes hidden [N, D], weight [V, D], targets [N]");
  Inputs inputs{.hidden = hidden.detach().to(dtype),
                .weight = weight.detach().to(dtype),
                .bias = {},
                .targets = targets,
                .options = options};
  if (bias.defined()) inputs.bias = bias.detach().to(inputs.logits_dtype());
  if (options.teacher == nullptr) return inputs;
  const LinearTeacher& teacher = *options.teacher;
  core::ensure(teacher.hidden.size(0) == hidden.size(0) && teacher.weight.size(0) == weight.size(0),
               "linear_cross_entropy takes a teacher with as many rows, and as large a vocabulary");
  core::ensure(options.part == nullptr, "linear_cross_entropy takes no teacher where ranks share the vocabulary");
  inputs.teacher = Projection{
      .hidden = teacher.hidden.to(dtype), .weight = teacher.weight.to(dtype), .bias = {}, .softcap = teacher.softcap};
  if (teacher.bias.defined()) inputs.teacher->bias = teacher.bias.to(inputs.logits_dtype());
  return inputs;
}

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                                const at::Tensor& targets, const LinearCrossEntropyOptions& options) {
  const at::ScalarType dtype = product_dtype(hidden, weight);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const Inputs inputs = inputs_of(hidden, weight, bias, targets, dtype, options);
  if (!at::GradMode::is_enabled()) {
    Gradients nothing;
    return run(inputs, nothing);
  }
  return LinearCrossEntropy::apply(hidden, weight, bias.defined() ? std::optional(bias) : std::nullopt, inputs);
}

at::Tensor linear_cross_entropy_rows(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& targets, const LinearCrossEntropyOptions& options) {
  core::ensure(options.teacher == nullptr, "linear_cross_entropy_rows takes no teacher");
  const at::ScalarType dtype = product_dtype(hidden, weight);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const Inputs inputs = inputs_of(hidden, weight, bias, targets, dtype, options);
  if (!at::GradMode::is_enabled()) return row_losses_of(inputs);
  return LinearCrossEntropyRows::apply(hidden, weight, bias.defined() ? std::optional(bias) : std::nullopt, inputs);
}

}  // namespace trainctl::kernels
