#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <sstream>

#include "checkpoint/checkpoint.h"
#include "core/error.h"

namespace trainctl::checkpoint {
namespace {

constexpr const char* kOtherRun = "the model or the optimizer of this run differs from the checkpoint's";

std::string describe(at::ScalarType dtype, c10::IntArrayRef shape) {
  std::ostringstream text;
  text << c10::toString(dtype) << " " << shape;
  return text.str();
}

at::Tensor on_host(std::int64_t numel, at::ScalarType dtype) {
  return at::empty({numel}, at::TensorOptions(dtype).device(at::kCPU));
}

std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

/// Another value than 0 or 1 in a bool is undefined behaviour later on.
void check_bools(const std::string& name, const at::Tensor& tensor) {
  const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
  if (std::any_of(data, data + tensor.nbytes(), [](std::byte value) { return value > std::byte{1}; }))
    throw core::Error("tensor " + name + " of the checkpoint is neither true nor false everywhere");
}

}  // namespace

/// What is read for one tensor, and where it goes when it is there.
struct StateReader::Request {
  std::string name;
  at::Tensor into;              // dense, or any that is whole
  std::int64_t offset = 0;      // in `order`
  Dims order;                   // of `into`'s elements in memory
  bool is_in_place = true;      // read where it belongs, not into memory of its own
  std::int64_t from = 0;        // elements that are read, in the checkpoint's order
  runtime::ElementRuns runs{};  // of which `from` counts
  at::Tensor read;              // flat
  void put(const TensorRecord& record) const;
};

StateReader::StateReader(const Checkpoint& checkpoint, OptimizerSlots slots) : checkpoint_(checkpoint), slots_(slots) {}

StateReader::~StateReader() = default;

/// `read` are the wanted elements in the wanted order; or, where the orders differ, the whole tensor.
void StateReader::Request::put(const TensorRecord& record) const {
  if (is_in_place) return;
  if (record.order == order) {
    const at::Tensor value = at::as_strided(
        read, into.sizes(),
        into.is_non_overlapping_and_dense() ? into.strides() : c10::IntArrayRef(strides_of(record.shape, order)));
    into.copy_(value);
    return;
  }
  const at::Tensor whole = at::as_strided(read, record.shape, strides_of(record.shape, record.order));
  if (into.sizes() == c10::IntArrayRef(record.shape)) {
    into.copy_(whole);
    return;
  }
  const at::Tensor ordered = on_host(read.numel(), record.dtype);
  at::as_strided(ordered, record.shape, strides_of(record.shape, order)).copy_(whole);
  into.copy_(ordered.narrow(0, offset, into.numel()));
}

const TensorRecord& StateReader::record(const std::string& name, const at::Tensor& value,
                                        c10::IntArrayRef shape) const {
  const auto found = checkpoint_.tensors().find(name);
  if (found == checkpoint_.tensors().end())
    throw core::Error("the checkpoint has no tensor " + name + ", which this run needs").hint(kOtherRun);
  core::ensure(value.defined(), "state is restored into an undefined tensor: " + name);
  const TensorRecord& record = found->second;
  if (c10::IntArrayRef(record.shape) != shape || record.dtype != value.scalar_type())
    throw core::Error("tensor " + name + " is " + describe(record.dtype, record.shape) + " in the checkpoint and " +
                      describe(value.scalar_type(), shape) + " in this run")
        .hint(kOtherRun);
  return record;
}

void StateReader::tensor(const std::string& name, at::Tensor& value) {
  const TensorRecord& found = record(name, value, value.sizes());
  const at::Tensor into = value.detach();
  const bool is_dense = into.is_non_overlapping_and_dense();
  Request request{.name = name, .into = into, .order = is_dense ? memory_order(into.sizes(), into.strides()) : Dims{}};
  request.is_in_place = is_dense && into.is_cpu() && request.order == found.order;
  request.read = request.is_in_place ? at::as_strided(into, {into.numel()}, {1}, into.storage_offset())
                                     : on_host(into.numel(), found.dtype);
  requests_.push_back(std::move(request));
  used_.insert(name);
}

void StateReader::part(const std::string& name, at::Tensor& stretch, const runtime::PartOf& whole) {
  if (whole.slot && (ignores(name) || begins_slot_anew(name, *whole.slot, stretch))) return;
  const TensorRecord& found = record(name, stretch, whole.shape);
  const at::Tensor into = stretch.detach();
  core::ensure(
      into.dim() == 1 && (into.numel() == 0 || whole.runs.at(whole.offset + into.numel() - 1) < numel_of(whole.shape)),
      "a stretch is flat and within its tensor: " + name);
  Request request{
      .name = name, .into = into, .offset = whole.offset, .order = memory_order(whole.shape, whole.strides)};
  const bool is_as_saved = request.order == found.order;
  core::ensure(is_as_saved || whole.runs.length == 0, "split parameters are row-major: " + name);
  request.runs = whole.runs;
  request.is_in_place = is_as_saved && into.is_cpu() && into.is_contiguous();
  request.from = is_as_saved ? whole.offset : 0;
  request.read = request.is_in_place ? into : on_host(is_as_saved ? into.numel() : numel_of(whole.shape), found.dtype);
  requests_.push_back(std::move(request));
  used_.insert(name);
}

std::uint64_t StateReader::finish() {
  const at::NoGradGuard no_grad;
  std::vector<Checkpoint::Range> ranges;
  std::uint64_t bytes = 0;
  for (const Request& request : requests_) {
    ranges.push_back({request.name, request.from, request.read.numel(), bytes_of(request.read), request.runs});
    bytes += request.read.nbytes();
  }
  checkpoint_.read(ranges);
  for (const Request& request : requests_) {
    if (request.read.scalar_type() == at::kBool) check_bools(request.name, request.read);
    request.put(checkpoint_.tensors().at(request.name));
  }
  requests_.clear();
  for (const auto& [slot, values] : first_values_) slot.copy_(values);
  first_values_.clear();
  return bytes;
}

template <class T>
void StateReader::give_back(const std::string& name, T& value) {
  const auto found = checkpoint_.values().find(name);
  if (found == checkpoint_.values().end())
    throw core::Error("the checkpoint has no value " + name + ", which this run needs").hint(kOtherRun);
  const T* const saved = std::get_if<T>(&found->second);
  if (saved == nullptr) throw core::Error("value " + name + " has another type in the checkpoint").hint(kOtherRun);
  value = *saved;
  used_.insert(name);
}

bool StateReader::has(const std::string& name) {
  if (ignores(name)) return false;
  const auto is_there = [&](const auto& named) {
    const auto found = named.lower_bound(name);
    const auto inside = named.lower_bound(name + ".");
    return (found != named.end() && found->first == name) ||
           (inside != named.end() && inside->first.starts_with(name + "."));
  };
  return is_there(checkpoint_.tensors()) || is_there(checkpoint_.values());
}

/// Returns whether the tensor is an optimizer's that this reader leaves as it is. Averages are slots too, but of
/// "ema.".
bool StateReader::ignores(const std::string& name) const {
  return slots_ == OptimizerSlots::ignored && name.starts_with("optimizer.");
}

void StateReader::begins_anew(const std::string& name) {
  if (std::find(begun_anew_.begin(), begun_anew_.end(), name) == begun_anew_.end()) begun_anew_.push_back(name);
}

void StateReader::slot(const runtime::SlotKey& key, at::Tensor& value) {
  if (!ignores(key.name()) && !begins_slot_anew(key.name(), key, value)) tensor(key.name(), value);
}

bool StateReader::begins_slot_anew(const std::string& name, const runtime::SlotKey& key, const at::Tensor& value) {
  const auto& tensors = checkpoint_.tensors();
  if (tensors.contains(name)) return false;
  const std::string component = name.substr(0, name.find('.') + 1);  // "optimizer."
  for (auto named = tensors.lower_bound(component); named != tensors.end() && named->first.starts_with(component);
       ++named)
    if (named->first.substr(named->first.find('.', component.size()) + 1) == key.parameter) return false;
  begins_anew(component.substr(0, component.size() - 1) + " of " + key.parameter);
  if (key.first_values.defined()) first_values_.emplace_back(value.detach(), key.first_values.detach());
  return true;
}

void StateReader::integer(const std::string& name, std::int64_t& value) {
  give_back(name, value);
}
void StateReader::number(const std::string& name, double& value) {
  give_back(name, value);
}
void StateReader::text(const std::string& name, std::string& value) {
  give_back(name, value);
}

std::vector<std::string> StateReader::unused(comm::Group* group) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : checkpoint_.tensors()) names.push_back(name);
  for (const auto& [name, value] : checkpoint_.values()) names.push_back(name);
  const at::Tensor used = at::zeros({static_cast<std::int64_t>(names.size())}, at::kLong);
  auto* flags = used.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < names.size(); ++i) flags[i] = used_.contains(names[i]) ? 1 : 0;
  if (group != nullptr && !names.empty()) group->all_reduce(used, comm::Reduce::max)->wait();
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (flags[i] == 0 && !ignores(names[i])) unused.push_back(names[i]);
  return unused;
}

}  // namespace trainctl::checkpoint
