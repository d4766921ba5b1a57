#include "comm/reduce/power_sgd.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "runtime/random.h"

namespace trainctl::comm {
namespace {

using c10::ivalue::Future;

/// Orthonormalizes the columns of `matrix` [n, r] in place. Like PyTorch, it uses Gram-Schmidt for one or two columns,
/// since QR costs more there.
void orthonormalize(const at::Tensor& matrix) {
  const std::int64_t rank = matrix.size(1);
  constexpr std::int64_t kFewColumns = 2;
  if (rank > kFewColumns) {
    matrix.copy_(std::get<0>(at::linalg_qr(matrix)));
    return;
  }
  constexpr double kTiny = 1e-30;  // keeps zero gradients at 0
  for (std::int64_t i = 0; i < rank; ++i) {
    const at::Tensor column = matrix.select(1, i);
    const auto normalize = [&] { column.div_(at::linalg_vector_norm(column).clamp_min_(kTiny)); };
    normalize();
    // Project twice: if the columns are nearly parallel, the first projection leaves mostly rounding errors.
    for (int round = 0; round < 2; ++round) {
      for (std::int64_t j = 0; j < i; ++j) {
        const at::Tensor before = matrix.select(1, j);
        column.sub_(before.mul(before.mul(column).sum()));
      }
      normalize();
    }
  }
}

at::Tensor as_matrix(const at::Tensor& tensor) {
  return tensor.reshape({tensor.size(0), -1});
}

/// Splits one buffer into matrices, so that a single collective sends them all.
std::vector<at::Tensor> dealt(const at::Tensor& flat, const std::vector<std::array<std::int64_t, 2>>& shapes) {
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const auto& [rows, columns] : shapes) {
    parts.push_back(flat.narrow(0, begin, rows * columns).view({rows, columns}));
    begin += rows * columns;
  }
  return parts;
}

std::int64_t total(const std::vector<std::array<std::int64_t, 2>>& shapes) {
  std::int64_t sum = 0;
  for (const auto& [rows, columns] : shapes) sum += rows * columns;
  return sum;
}

}  // namespace

std::int64_t columns_sent(at::IntArrayRef shape, const LowRankOptions& options) {
  const std::int64_t numel = c10::multiply_integers(shape);
  if (shape.size() < 2 || numel == 0) return 0;
  const std::int64_t rows = shape[0];
  const std::int64_t columns = numel / rows;
  const std::int64_t rank = std::min({rows, columns, options.rank});
  const auto sent = static_cast<double>((rows + columns) * rank);
  return sent * options.min_compression_rate >= static_cast<double>(numel) ? 0 : rank;
}

PowerSgd::PowerSgd(c10::intrusive_ptr<c10d::ProcessGroup> processes, const std::vector<NamedParameter>& parameters,
                   const LowRankOptions& options)
    : processes_(std::move(processes)), options_(options) {
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    const std::int64_t rank = columns_sent(tensor.sizes(), options);
    if (rank == 0) continue;
    const std::int64_t columns = tensor.numel() / tensor.size(0);
    const at::TensorOptions like = tensor.options().requires_grad(false);
    auto matrix = std::make_unique<Matrix>(Matrix{
        .name = parameter.name, .rank = rank, .unsent = at::zeros(tensor.sizes(), like), .q = at::empty({0}, like)});
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(
        runtime::mix(runtime::key_of("powersgd"), runtime::key_of(parameter.name)));
    matrix->q = at::empty({columns, rank}, like.device(at::kCPU)).normal_(0, 1, generator).to(tensor.device());
    of_parameter_.emplace(tensor.unsafeGetTensorImpl(), matrix.get());
    matrices_.push_back(std::move(matrix));
  }
}

c10::intrusive_ptr<c10d::Work> PowerSgd::start_sum(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return nullptr;
  std::vector<at::Tensor> tensors{tensor};
  return processes_->allreduce(tensors);
}

/// Starts the second half of a bucket's sum when the next bucket arrives. A start on completion of the first half would
/// let members send in different orders.
c10::intrusive_ptr<Future> PowerSgd::runHook(c10d::GradBucket& bucket) {
  const at::NoGradGuard no_grad;
  const bool is_exact = num_reductions_ < options_.start_step;
  if (bucket.isLast()) ++num_reductions_;
  if (is_exact) return start_sum(bucket.getBuffer())->getFuture();
  if (bucket.getIndex() == 0) under_way_.clear();  // left by a failed backward pass
  under_way_.push_back(begin(bucket));
  const c10::intrusive_ptr<Future> done = under_way_.back().done;
  if (under_way_.size() > 1) send_qs(under_way_[under_way_.size() - 2]);
  if (under_way_.size() > 2) {
    finish(under_way_.front());
    under_way_.pop_front();
  }
  if (!bucket.isLast()) return done;
  send_qs(under_way_.back());
  for (UnderWay& last : under_way_) finish(last);
  under_way_.clear();
  return done;
}

at::Tensor PowerSgd::parseHookResult(const c10::IValue& result) {
  return c10d::detail::parseCppCommHookResult(result);
}

PowerSgd::UnderWay PowerSgd::begin(c10d::GradBucket& bucket) {
  const auto size = static_cast<double>(processes_->getSize());
  UnderWay begun{.buffer = bucket.getBuffer()};
  std::vector<c10::Device> devices;
  if (!begun.buffer.is_cpu()) devices.push_back(begun.buffer.device());
  begun.done = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
  const std::vector<at::Tensor> gradients = bucket.getGradients();
  const std::vector<at::Tensor>& parameters = bucket.getParameters();
  std::vector<std::array<std::int64_t, 2>> p_shapes;
  std::vector<std::array<std::int64_t, 2>> q_shapes;
  std::vector<at::Tensor> flat;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto found = of_parameter_.find(parameters[i].unsafeGetTensorImpl());
    if (found == of_parameter_.end()) {
      begun.rest.push_back(gradients[i]);
      flat.push_back(gradients[i].reshape({-1}));
      continue;
    }
    Matrix& matrix = *found->second;
    const at::Tensor input = as_matrix(gradients[i]).add(as_matrix(matrix.unsent), 1 / size);
    begun.compressed.push_back({.matrix = &matrix, .gradient = gradients[i], .input = input, .p = {}, .q = {}});
    p_shapes.push_back({input.size(0), matrix.rank});
    q_shapes.push_back({input.size(1), matrix.rank});
  }
  begun.rests = flat.empty() ? at::empty({0}, begun.buffer.options()) : at::cat(flat);
  begun.ps = at::empty({total(p_shapes)}, begun.buffer.options());
  begun.qs = at::empty({total(q_shapes)}, begun.buffer.options());
  const std::vector<at::Tensor> ps = dealt(begun.ps, p_shapes);
  const std::vector<at::Tensor> qs = dealt(begun.qs, q_shapes);
  for (std::size_t i = 0; i < begun.compressed.size(); ++i) {
    Compressed& one = begun.compressed[i];
    one.p = ps[i];
    one.q = qs[i];
    one.q.copy_(one.matrix->q);
    orthonormalize(one.q);
    one.p.copy_(at::mm(one.input, one.q));
  }
  begun.summing_rests = start_sum(begun.rests);
  begun.summing_ps = start_sum(begun.ps);
  return begun;
}

void PowerSgd::send_qs(UnderWay& bucket) {
  if (bucket.summing_ps) bucket.summing_ps->wait();
  for (const Compressed& one : bucket.compressed) {
    orthonormalize(one.p);
    one.q.copy_(at::mm(one.input.t(), one.p));
  }
  bucket.summing_qs = start_sum(bucket.qs);
}

void PowerSgd::finish(UnderWay& bucket) {
  if (bucket.summing_qs) bucket.summing_qs->wait();
  if (bucket.summing_rests) bucket.summing_rests->wait();
  const auto size = static_cast<double>(processes_->getSize());
  for (const Compressed& one : bucket.compressed) {
    Matrix& matrix = *one.matrix;
    const at::Tensor sum = at::mm(one.p, one.q.t());
    one.gradient.copy_(sum.view(one.gradient.sizes()));
    // A non-finite step is skipped, so later steps must not start from its values.
    const at::Tensor is_finite = sum.sum().isfinite();
    const at::Tensor missed = one.input.mul(size).sub_(sum).view(matrix.unsent.sizes());
    matrix.unsent.copy_(at::where(is_finite, missed, matrix.unsent));
    matrix.q.copy_(at::where(is_finite, one.q, matrix.q));
  }
  std::int64_t begin = 0;
  for (const at::Tensor& gradient : bucket.rest) {
    gradient.copy_(bucket.rests.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
    begin += gradient.numel();
  }
  bucket.done->markCompleted(c10::IValue(std::vector<at::Tensor>{bucket.buffer}));
}

void PowerSgd::share_unsent() {
  if (num_reductions_ <= options_.start_step) return;
  const at::NoGradGuard no_grad;
  for (const std::unique_ptr<Matrix>& matrix : matrices_) {
    if (const c10::intrusive_ptr<c10d::Work> summing = start_sum(matrix->unsent)) summing->wait();
    matrix->unsent.div_(static_cast<double>(processes_->getSize()));
  }
}

void PowerSgd::visit_state(runtime::State& state) {
  if (matrices_.empty()) return;
  if (!state.has("unsent")) {  // saved by a process alone, or by a version that kept each member's error
    state.begins_anew("power_sgd");
    return;
  }
  for (const std::unique_ptr<Matrix>& matrix : matrices_) {
    state.tensor("unsent." + matrix->name, matrix->unsent);
    state.tensor("q." + matrix->name, matrix->q);
  }
  state.integer("num_reductions", num_reductions_);
}

}  // namespace trainctl::comm
