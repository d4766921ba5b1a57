#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include <sstream>

#include "checkpoint/checkpoint.h"
#include "core/error.h"

namespace trainctl {
namespace {

constexpr const char* kOtherRun = "the model or the optimizer of this run differs from the checkpoint's";

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << " " << tensor.sizes();
  return text.str();
}

template <class T>
void insert(std::map<std::string, T>& into, const std::string& name, T value) {
  ensure(into.emplace(name, std::move(value)).second, "two components have state of the name " + name);
}

}  // namespace

void SnapshotWriter::tensor(const std::string& name, at::Tensor& value) {
  const at::NoGradGuard no_grad;
  const at::Tensor source = value.detach();
  insert(snapshot_.tensors, name, source.is_cpu() ? source.clone() : source.cpu());
}

void SnapshotWriter::integer(const std::string& name, std::int64_t& value) {
  insert(snapshot_.values, name, {value});
}
void SnapshotWriter::number(const std::string& name, double& value) {
  insert(snapshot_.values, name, {value});
}
void SnapshotWriter::text(const std::string& name, std::string& value) {
  insert(snapshot_.values, name, {value});
}

void SnapshotReader::tensor(const std::string& name, at::Tensor& value) {
  const auto found = snapshot_.tensors.find(name);
  if (found == snapshot_.tensors.end())
    throw Error("the checkpoint has no tensor " + name + ", which this run needs").hint(kOtherRun);
  ensure(value.defined(), "state is restored into an undefined tensor: " + name);
  const at::Tensor& saved = found->second;
  if (saved.sizes() != value.sizes() || saved.scalar_type() != value.scalar_type())
    throw Error("tensor " + name + " is " + describe(saved) + " in the checkpoint and " + describe(value) +
                " in this run")
        .hint(kOtherRun);
  const at::NoGradGuard no_grad;
  value.copy_(saved);
  used_.insert(name);
}

template <class T>
void SnapshotReader::give_back(const std::string& name, T& value) {
  const auto found = snapshot_.values.find(name);
  if (found == snapshot_.values.end())
    throw Error("the checkpoint has no value " + name + ", which this run needs").hint(kOtherRun);
  const T* const saved = std::get_if<T>(&found->second);
  if (saved == nullptr) throw Error("value " + name + " has another type in the checkpoint").hint(kOtherRun);
  value = *saved;
  used_.insert(name);
}

void SnapshotReader::integer(const std::string& name, std::int64_t& value) {
  give_back(name, value);
}
void SnapshotReader::number(const std::string& name, double& value) {
  give_back(name, value);
}
void SnapshotReader::text(const std::string& name, std::string& value) {
  give_back(name, value);
}

std::vector<std::string> SnapshotReader::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : snapshot_.tensors)
    if (!used_.contains(name)) names.push_back(name);
  for (const auto& [name, value] : snapshot_.values)
    if (!used_.contains(name)) names.push_back(name);
  return names;
}

}  // namespace trainctl
