#include "distributed/flat_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/fake_tensor.h"

namespace trainctl::distributed {
namespace {

/// The alignment of shards, in elements: each rank's shard begins on a cache line, which suits vector instructions.
constexpr std::int64_t kAlignment = 16;

std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

FlatParameters::FlatParameters(std::vector<model::NamedTensor> parameters, const ShardLayout& layout)
    : layout_(layout) {
  core::ensure(!parameters.empty(), "a unit has parameters");
  const at::NoGradGuard no_grad;
  std::int64_t size = 0;
  for (model::NamedTensor& named : parameters) {
    core::ensure(named.tensor.is_non_overlapping_and_dense() &&
                     named.tensor.scalar_type() == parameters.front().tensor.scalar_type(),
                 "parameters of a unit are dense and of one type: " + named.name);
    const std::int64_t numel = named.tensor.numel();
    entries_.push_back({.name = std::move(named.name),
                        .tensor = named.tensor,
                        .offset = size,
                        .numel = numel,
                        .shard = named.shard,
                        .is_copy = named.is_copy});
    size += numel;
  }
  shard_size_ = round_up((size + layout_.shards.size() - 1) / layout_.shards.size(), kAlignment);
  const runtime::FakeTinyTensors all_alike;  // parameters of a dry run are fake, however small they are
  whole_ = at::empty({numel()}, entries_.front().tensor.options().requires_grad(false));
  whole_.narrow(0, size, numel() - size).zero_();
  fill_whole();
  layout_.first_values = nullptr;
  layout_.all.broadcast(whole_, /*root=*/0)->wait();
  make_shard();
  if (layout_.whole == Whole::gathered) release();
}

void FlatParameters::fill_whole() {
  for (Entry& entry : entries_) {
    const at::Tensor place = view(whole_, entry);
    if (entry.tensor.storage().nbytes() > 0 || entry.numel == 0)
      place.copy_(entry.tensor.detach());
    else
      (*layout_.first_values)(entry.name, place);
    entry.tensor.set_data(place);
  }
}

void FlatParameters::make_shard() {
  const at::Tensor mine = whole_.narrow(0, layout_.shards.rank() * shard_size_, shard_size_);
  if (layout_.parts != nullptr) {
    shard_ = layout_.parts->zeros_like(mine);
    shard_.copy_(mine);
    if (shard_.device() == mine.device()) part_ = shard_;
    return;
  }
  part_ = layout_.whole == Whole::kept ? mine : mine.clone();
  shard_ = part_;
  if (layout_.masters == nullptr) return;
  shard_ = layout_.masters->zeros_like(mine);
  shard_.copy_(mine);
}

at::Tensor FlatParameters::view(const at::Tensor& whole, const Entry& entry) const {
  return at::as_strided(whole, entry.tensor.sizes(), entry.tensor.strides(), entry.offset);
}

std::vector<model::NamedTensor> FlatParameters::pieces(const at::Tensor& flat) const {
  const std::int64_t begin = layout_.shards.rank() * shard_size_;
  std::vector<model::NamedTensor> found;
  for (const Entry& entry : entries_) {
    const std::int64_t first = std::max(entry.offset, begin);
    const std::int64_t last = std::min(entry.offset + entry.numel, begin + shard_size_);
    if (first < last)
      found.push_back(
          {.name = entry.name, .tensor = flat.narrow(0, first - begin, last - first), .is_copy = entry.is_copy});
  }
  return found;
}

std::int64_t FlatParameters::num_dims(const std::string& name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
  core::ensure(found != entries_.end(), "the unit has the parameter " + name);
  return found->tensor.dim();
}

void FlatParameters::allocate_whole() {
  c10::StorageImpl* storage = whole_.storage().unsafeGetStorageImpl();
  const std::size_t bytes = static_cast<std::size_t>(numel()) * whole_.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void FlatParameters::bring() {
  if (layout_.parts != nullptr && !is_whole_ && !gathering_) layout_.parts->bring(shard_);
}

void FlatParameters::start_gather() {
  if (is_whole_ || gathering_) return;
  allocate_whole();
  staged_ = part_.defined() ? part_ : shard_.to(whole_.device(), /*non_blocking=*/true);
  gathering_ = layout_.shards.all_gather(whole_, staged_);
}

void FlatParameters::gather() {
  start_gather();
  if (!gathering_) return;
  gathering_->wait();
  gathering_.reset();
  staged_.reset();
  if (layout_.parts != nullptr) layout_.parts->put_away(shard_);
  is_whole_ = true;
}

void FlatParameters::release() {
  if (layout_.whole == Whole::kept) return;
  if (gathering_) gather();  // on its way: its memory is being written
  if (!is_whole_) return;
  // Views share the storage: those that autograd has saved find the values again when it is refilled.
  c10::StorageImpl* storage = whole_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
  is_whole_ = false;
}

std::unique_ptr<comm::Work> FlatParameters::publish() {
  const at::NoGradGuard no_grad;
  if (part_.defined() && !part_.is_same(shard_)) part_.copy_(shard_, /*non_blocking=*/true);
  return layout_.whole == Whole::kept ? layout_.shards.all_gather(whole_, part_) : nullptr;
}

}  // namespace trainctl::distributed
