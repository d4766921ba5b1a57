#include "distributed/flat_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/error.h"

namespace trainctl {
namespace {

/// Of shards, in elements: a rank's part begins on a cache line, and where vector instructions like it.
constexpr std::int64_t kAlignment = 16;

std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

FlatParameters::FlatParameters(std::vector<NamedTensor> parameters, Group& group, Whole whole)
    : group_(group), policy_(whole) {
  ensure(!parameters.empty(), "a unit has parameters");
  const at::NoGradGuard no_grad;
  std::int64_t size = 0;
  for (NamedTensor& named : parameters) {
    ensure(named.tensor.is_non_overlapping_and_dense() &&
               named.tensor.scalar_type() == parameters.front().tensor.scalar_type(),
           "parameters of a unit are dense and of one type: " + named.name);
    const std::int64_t numel = named.tensor.numel();
    entries_.push_back({.name = std::move(named.name), .tensor = named.tensor, .offset = size, .numel = numel});
    size += numel;
  }
  shard_size_ = round_up((size + group_.size() - 1) / group_.size(), kAlignment);
  whole_ = at::zeros({numel()}, entries_.front().tensor.options().requires_grad(false));
  for (Entry& entry : entries_) {
    const at::Tensor place = view(whole_, entry);
    place.copy_(entry.tensor.detach());
    entry.tensor.set_data(place);
  }
  group_.broadcast(whole_, /*root=*/0)->wait();
  shard_ = whole_.narrow(0, group_.rank() * shard_size_, shard_size_);
  if (policy_ == Whole::kept) return;
  shard_ = shard_.clone();
  release();
}

at::Tensor FlatParameters::view(const at::Tensor& whole, const Entry& entry) const {
  return at::as_strided(whole, entry.tensor.sizes(), entry.tensor.strides(), entry.offset);
}

std::vector<NamedTensor> FlatParameters::pieces(const at::Tensor& flat) const {
  const std::int64_t begin = group_.rank() * shard_size_;
  std::vector<NamedTensor> found;
  for (const Entry& entry : entries_) {
    const std::int64_t first = std::max(entry.offset, begin);
    const std::int64_t last = std::min(entry.offset + entry.numel, begin + shard_size_);
    if (first < last) found.push_back({entry.name, flat.narrow(0, first - begin, last - first)});
  }
  return found;
}

std::int64_t FlatParameters::num_dims(const std::string& name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
  ensure(found != entries_.end(), "the unit has the parameter " + name);
  return found->tensor.dim();
}

void FlatParameters::allocate_whole() {
  c10::StorageImpl* storage = whole_.storage().unsafeGetStorageImpl();
  const std::size_t bytes = static_cast<std::size_t>(numel()) * whole_.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void FlatParameters::start_gather() {
  if (is_whole_ || gathering_) return;
  allocate_whole();
  gathering_ = group_.all_gather(whole_, shard_);
}

void FlatParameters::gather() {
  start_gather();
  if (!gathering_) return;
  gathering_->wait();
  gathering_.reset();
  is_whole_ = true;
}

void FlatParameters::release() {
  if (policy_ == Whole::kept) return;
  if (gathering_) gather();  // on its way: its memory is being written
  if (!is_whole_) return;
  // Views share the storage: those that autograd has saved find the values again when it is refilled.
  c10::StorageImpl* storage = whole_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
  is_whole_ = false;
}

std::unique_ptr<Pending> FlatParameters::update_whole() {
  return policy_ == Whole::kept ? group_.all_gather(whole_, shard_) : nullptr;
}

void FlatParameters::update_shard() {
  ensure(is_whole_, "the whole is there");
  if (policy_ == Whole::kept) return;
  const at::NoGradGuard no_grad;
  shard_.copy_(whole_.narrow(0, group_.rank() * shard_size_, shard_size_));
}

}  // namespace trainctl
