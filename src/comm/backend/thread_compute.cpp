#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>

#include "comm/backend/thread_rendezvous.h"
#include "core/error.h"

namespace trainctl::comm {
namespace {

/// Number of elements per chunk: the chunks of all members fit in a core's cache.
constexpr std::int64_t kChunk = 1 << 17;

bool is_sixteen_bit(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

void combine(at::Tensor& into, const at::Tensor& other, c10d::ReduceOp::RedOpType reduce) {
  if (reduce == c10d::ReduceOp::MAX)
    into = at::maximum(into, other);
  else if (reduce == c10d::ReduceOp::MIN)
    into = at::minimum(into, other);
  else
    into.add_(other);
}

/// Reduces one range of every member's tensor, in the order of the members.
at::Tensor reduced(const std::vector<at::Tensor>& parts, c10d::ReduceOp::RedOpType reduce) {
  const at::ScalarType type = parts.front().scalar_type();
  const at::ScalarType wide = is_sixteen_bit(type) ? at::kFloat : type;
  at::Tensor result = parts.front().to(wide, /*non_blocking=*/false, /*copy=*/true);
  for (std::size_t i = 1; i < parts.size(); ++i)
    combine(result, parts[i].to(at::TensorOptions(result.device()).dtype(wide)), reduce);
  if (reduce == c10d::ReduceOp::AVG) result.div_(static_cast<double>(parts.size()));
  return result;
}

/// Returns tensor number `index` of each member, flat.
std::vector<at::Tensor> of_members(const std::vector<ThreadCall>& calls, std::size_t index) {
  std::vector<at::Tensor> tensors;
  for (const ThreadCall& call : calls) tensors.push_back(call.inputs[index].view({-1}));
  return tensors;
}

void reduce_into(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                 c10d::ReduceOp::RedOpType reduce) {
  const std::int64_t size = from.front().numel();
  const std::int64_t chunk = from.front().is_cpu() ? kChunk : std::max<std::int64_t>(size, 1);
  for (std::int64_t begin = 0; begin < size; begin += chunk) {
    const std::int64_t length = std::min(chunk, size - begin);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& tensor : from) parts.push_back(tensor.narrow(0, begin, length));
    const at::Tensor result = reduced(parts, reduce);
    for (const at::Tensor& tensor : to) tensor.narrow(0, begin, length).copy_(result);
  }
}

void all_reduce(std::vector<ThreadCall>& calls) {
  const ThreadCall& first = calls.front();
  for (std::size_t index = 0; index < first.inputs.size(); ++index) {
    const std::vector<at::Tensor> tensors = of_members(calls, index);
    if (first.kind == ThreadCall::Kind::reduce)
      reduce_into({tensors[static_cast<std::size_t>(first.root)]}, tensors, first.reduce);
    else
      reduce_into(tensors, tensors, first.reduce);
  }
}

void broadcast(std::vector<ThreadCall>& calls) {
  const auto root = static_cast<std::size_t>(calls.front().root);
  for (std::size_t i = 0; i < calls.size(); ++i)
    for (std::size_t index = 0; index < calls[i].inputs.size() && i != root; ++index)
      calls[i].inputs[index].view({-1}).copy_(calls[root].inputs[index].view({-1}));
}

void all_gather(std::vector<ThreadCall>& calls) {
  for (const ThreadCall& to : calls)
    for (std::size_t from = 0; from < calls.size(); ++from) {
      const at::Tensor& part = calls[from].inputs.front();
      const at::Tensor& place = to.outputs[from];
      if (place.data_ptr() != part.data_ptr()) place.view({-1}).copy_(part.view({-1}));
    }
}

void reduce_scatter(std::vector<ThreadCall>& calls) {
  for (std::size_t to = 0; to < calls.size(); ++to)
    reduce_into({calls[to].outputs.front().view({-1})}, of_members(calls, to), calls.front().reduce);
}

void all_to_all(std::vector<ThreadCall>& calls) {
  for (std::size_t to = 0; to < calls.size(); ++to)
    for (std::size_t from = 0; from < calls.size(); ++from) calls[to].outputs[from].copy_(calls[from].inputs[to]);
}

/// From the sender, which is the first of the two.
void transfer(std::vector<ThreadCall>& calls) {
  for (std::size_t index = 0; index < calls.front().inputs.size(); ++index)
    calls.back().inputs[index].view({-1}).copy_(calls.front().inputs[index].view({-1}));
}

const char* name_of(ThreadCall::Kind kind) {
  switch (kind) {
    case ThreadCall::Kind::all_reduce:
      return "all_reduce";
    case ThreadCall::Kind::reduce:
      return "reduce";
    case ThreadCall::Kind::broadcast:
      return "broadcast";
    case ThreadCall::Kind::all_gather:
      return "all_gather";
    case ThreadCall::Kind::reduce_scatter:
      return "reduce_scatter";
    case ThreadCall::Kind::all_to_all:
      return "all_to_all";
    case ThreadCall::Kind::barrier:
      return "barrier";
    case ThreadCall::Kind::transfer:
      return "transfer";
  }
  throw std::logic_error("unknown collective");
}

bool same_tensors(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const at::Tensor& x, const at::Tensor& y) {
    return x.numel() == y.numel() && x.scalar_type() == y.scalar_type();
  });
}

}  // namespace

std::string describe(const ThreadCall& call) {
  std::string text = name_of(call.kind);
  std::int64_t numel = 0;
  for (const at::Tensor& tensor : call.inputs) numel += tensor.numel();
  if (!call.inputs.empty())
    text += " of " + std::to_string(numel) + " " + c10::toString(call.inputs.front().scalar_type());
  return text;
}

std::string mismatch(const ThreadCall& a, const ThreadCall& b) {
  if (a.kind != b.kind) return "the members call different collectives";
  if (a.root != b.root || a.reduce != b.reduce) return "the members want different results";
  if (!same_tensors(a.inputs, b.inputs)) return "the members bring tensors of different sizes or types";
  return "";
}

void compute(std::vector<ThreadCall>& calls) {
  const at::NoGradGuard no_grad;
  switch (calls.front().kind) {
    case ThreadCall::Kind::all_reduce:
    case ThreadCall::Kind::reduce:
      return all_reduce(calls);
    case ThreadCall::Kind::broadcast:
      return broadcast(calls);
    case ThreadCall::Kind::all_gather:
      return all_gather(calls);
    case ThreadCall::Kind::reduce_scatter:
      return reduce_scatter(calls);
    case ThreadCall::Kind::all_to_all:
      return all_to_all(calls);
    case ThreadCall::Kind::barrier:
      return;
    case ThreadCall::Kind::transfer:
      return transfer(calls);
  }
}

}  // namespace trainctl::comm
