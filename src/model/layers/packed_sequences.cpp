#include "model/layers/packed_sequences.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "runtime/fake_tensor.h"

namespace trainctl::model {
namespace {

struct Run {
  std::int64_t begin;  // position in [B T]
  std::int64_t length;
};

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.to(at::kCPU).contiguous();
}

std::vector<Run> find_runs(const SequenceContext& context, std::int64_t num_rows, std::int64_t length) {
  const at::Tensor mask = context.key_mask.defined() ? on_host(context.key_mask) : at::Tensor();
  const bool has_documents = context.positions.defined() && context.positions.dim() == 2;
  const at::Tensor positions = has_documents ? on_host(context.positions) : at::Tensor();
  const bool* valid = mask.defined() ? mask.const_data_ptr<bool>() : nullptr;
  const std::int64_t* position = has_documents ? positions.const_data_ptr<std::int64_t>() : nullptr;
  std::vector<Run> runs;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    bool in_run = false;
    for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
      const bool is_token = valid == nullptr || valid[i];
      const bool begins = is_token && (!in_run || (position != nullptr && position[i] == 0));
      if (begins) runs.push_back({.begin = i, .length = 0});
      if (is_token) ++runs.back().length;
      in_run = is_token;
    }
  }
  return runs;
}

}  // namespace

PackedSequences pack(const SequenceContext& context, const at::Tensor& like) {
  const runtime::RealScope values_are_needed;
  std::vector<Run> runs = find_runs(context, like.size(0), like.size(1));
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.length > b.length; });
  if (runs.empty()) throw core::Error("a batch has only padding; expected at least one token");
  std::int64_t num_tokens = 0;
  for (const Run& run : runs) num_tokens += run.length;
  const auto ids = at::TensorOptions().dtype(at::kLong).device(at::kCPU);
  const at::Tensor places = at::empty({num_tokens}, ids);
  at::Tensor batch_sizes = at::empty({runs.front().length}, ids);
  auto* place = places.mutable_data_ptr<std::int64_t>();
  auto* size = batch_sizes.mutable_data_ptr<std::int64_t>();
  std::size_t active = runs.size();
  for (std::int64_t t = 0; t < runs.front().length; ++t) {
    while (runs[active - 1].length <= t) --active;
    for (std::size_t i = 0; i < active; ++i) *place++ = runs[i].begin + t;
    size[t] = static_cast<std::int64_t>(active);
  }
  return {.places = places.to(like.device()), .batch_sizes = std::move(batch_sizes)};
}

}  // namespace trainctl::model
