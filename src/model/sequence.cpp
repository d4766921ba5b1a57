#include "model/sequence.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "core/error.h"
#include "kernels/portable.h"
#include "model/model.h"

namespace trainctl::model {
namespace {

constexpr std::int64_t kRoomStep = 256;  // tokens

at::Tensor grown(const at::Tensor& room, const at::Tensor& like, std::int64_t used, std::int64_t needed) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[2] = (needed + kRoomStep - 1) / kRoomStep * kRoomStep;
  shape[2] = std::max(shape[2], room.defined() ? 2 * room.size(2) : 0);
  at::Tensor larger = at::empty(shape, like.options());
  if (used > 0) larger.narrow(2, 0, used).copy_(room.narrow(2, 0, used));
  return larger;
}

/// Returns the distance of each token from the start of its document: [B, T].
at::Tensor positions_in_documents(const at::Tensor& documents) {
  const std::int64_t length = documents.size(1);
  const at::Tensor index = at::arange(length, documents.options());
  at::Tensor starts = at::zeros_like(documents);
  if (length > 1) {
    const at::Tensor begins = documents.narrow(1, 1, length - 1).ne(documents.narrow(1, 0, length - 1));
    starts.narrow(1, 1, length - 1).copy_(at::where(begins, index.narrow(0, 1, length - 1), 0));
  }
  return index.sub(std::get<0>(starts.cummax(1)));
}

}  // namespace

KeyValueCache::KeysValues KeyValueCache::append(std::size_t layer, const at::Tensor& keys, const at::Tensor& values) {
  if (layers_.size() <= layer) layers_.resize(layer + 1);
  Room& room = layers_[layer];
  const std::int64_t length = room.length + keys.size(2);
  if (!room.keys.defined() || room.keys.size(2) < length) {
    room.keys = grown(room.keys, keys, room.length, length);
    room.values = grown(room.values, values, room.length, length);
  }
  room.keys.narrow(2, room.length, keys.size(2)).copy_(keys);
  room.values.narrow(2, room.length, values.size(2)).copy_(values);
  room.length = length;
  return {.keys = room.keys.narrow(2, 0, length), .values = room.values.narrow(2, 0, length)};
}

const at::Tensor& KeyValueCache::append_ids(const at::Tensor& ids) {
  ids_ = ids_.defined() ? at::cat({ids_, ids}, 1) : ids;
  return ids_;
}

at::Tensor lengths_of_documents(const at::Tensor& documents) {
  const at::Tensor before = positions_in_documents(documents);
  const at::Tensor after = positions_in_documents(documents.flip(1)).flip(1);
  return before.add(after).add(1);
}

SequenceContext SequenceContext::on(c10::Device device) const {
  SequenceContext moved = *this;
  for (at::Tensor* tensor :
       {&moved.token_types, &moved.positions, &moved.mask, &moved.key_mask, &moved.rope_cosine, &moved.rope_sine,
        &moved.local_rope_cosine, &moved.local_rope_sine, &moved.window_mask, &moved.documents, &moved.position_bias,
        &moved.decoder_ids, &moved.source_buckets, &moved.target_buckets, &moved.source})
    if (tensor->defined()) *tensor = tensor->to(device);
  return moved;
}

SequenceContext in_window(const SequenceContext& context) {
  if (!context.window_mask.defined()) return context;
  SequenceContext windowed = context;
  windowed.mask = context.window_mask;
  windowed.is_causal = false;
  return windowed;
}

at::Tensor window_mask(const SequenceContext& context, std::int64_t window, std::int64_t length, c10::Device device) {
  const std::int64_t seen = context.cache == nullptr ? 0 : context.cache->length();
  // An exported graph is traced on short sequences, and computes longer ones, too.
  const bool may_hide = kernels::PortableOperators::are_wanted() || seen + length > window;
  if (context.ranks != nullptr || !may_hide) return {};
  const auto ids = at::TensorOptions(device).dtype(at::kLong);
  const at::Tensor keys = at::arange(seen + length, ids).unsqueeze(0);
  const at::Tensor queries = at::arange(seen, seen + length, ids).unsqueeze(1);
  const at::Tensor near = keys.le(queries).logical_and(keys.gt(queries.sub(window))).unsqueeze(0).unsqueeze(0);
  return context.mask.defined() ? context.mask.logical_and(near) : near;  // [1 or B, 1, T, S]
}

SequenceContext make_context(const ModelInput& input, Causality causality) {
  const std::int64_t length = input.values.size(1);
  const std::int64_t seen = input.cache == nullptr ? 0 : input.cache->length();
  const auto ids = at::TensorOptions(input.values.device()).dtype(at::kLong);
  SequenceContext context{.token_types = input.token_types, .key_mask = input.key_mask, .cache = input.cache};
  const bool causal = causality == Causality::causal;
  if (input.ranks != nullptr) {
    core::ensure(causal && seen == 0, "ranks share sequences whose attention is causal, and no cache");
    const at::Tensor places = input.ranks->places(length * input.ranks->size, input.values.device());
    context.positions =
        input.documents.defined() ? positions_in_documents(input.documents).index_select(1, places) : places;
    context.ranks = input.ranks;
    context.documents = input.documents;
    return context;
  }
  context.positions =
      input.documents.defined() ? positions_in_documents(input.documents) : at::arange(seen, seen + length, ids);
  if (!input.documents.defined() && !input.key_mask.defined() && seen == 0) {
    context.is_causal = causal;
    return context;
  }
  core::ensure(seen == 0 || !input.documents.defined(), "a cache holds one document a row");
  if (input.key_mask.defined()) context.mask = input.key_mask.unsqueeze(1).unsqueeze(1);  // [B, 1, 1, S]
  if (causal && (length > 1 || seen == 0)) {
    const at::Tensor keys = at::arange(seen + length, ids);
    const at::Tensor past = keys.unsqueeze(0).le(at::arange(seen, seen + length, ids).unsqueeze(1));  // [T, S]
    context.mask = context.mask.defined() ? context.mask.logical_and(past) : past.unsqueeze(0).unsqueeze(0);
  }
  if (input.documents.defined()) {
    const at::Tensor same = input.documents.unsqueeze(2).eq(input.documents.unsqueeze(1)).unsqueeze(1);  // [B, 1, T, T]
    context.mask = context.mask.defined() ? context.mask.logical_and(same) : same;
  }
  return context;
}

}  // namespace trainctl::model
