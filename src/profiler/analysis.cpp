#include "profiler/analysis.h"

#include <torch/csrc/profiler/collection.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace trainctl {
namespace {

namespace impl = torch::profiler::impl;
using OperatorFields = impl::ExtraFields<impl::EventType::TorchOp>;

constexpr std::size_t kNumOperators = 10;
constexpr double kNsPerMs = 1e6;

const OperatorFields* operator_fields(const impl::Result& event) {
  return std::get_if<OperatorFields>(&event.extra_fields_);
}

bool is_span(const impl::Result& event) {
  const OperatorFields* fields = operator_fields(event);
  return fields && fields->scope_ == at::RecordScope::USER_SCOPE;
}

std::int64_t duration_ns(const impl::Result& event) {
  return std::max<std::int64_t>(0, event.endTimeNS() - event.start_time_ns_);
}

/// The event's time without its children's.
std::int64_t self_ns(const impl::Result& event) {
  std::int64_t time = duration_ns(event);
  for (const auto& child : event.children_)
    if (operator_fields(*child)) time -= duration_ns(*child);
  return std::max<std::int64_t>(0, time);
}

/// "[128,1,28,28] [32,1,3,3]": of the tensors among the inputs; lists of tensors by their length.
std::string shapes_of(const OperatorFields& fields) {
  std::string text;
  for (const impl::op_input_t& input : fields.inputs_) {
    const auto* tensor = std::get_if<impl::TensorMetadata>(&input);
    const auto* list = std::get_if<std::vector<impl::TensorMetadata>>(&input);
    if (!tensor && !list) continue;
    if (!text.empty()) text += ' ';
    if (list) {
      text += "list of " + std::to_string(list->size());
      continue;
    }
    text += '[';
    for (std::size_t dim = 0; dim < tensor->sizes_.size(); ++dim)
      text += (dim == 0 ? "" : ",") + std::to_string(tensor->sizes_[dim]);
    text += ']';
  }
  return text;
}

/// The commonest shapes, and how many others there were.
std::string describe_shapes(const std::map<std::string, std::int64_t>& calls_by_shapes) {
  const auto commonest = std::max_element(calls_by_shapes.begin(), calls_by_shapes.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
  if (commonest == calls_by_shapes.end() || commonest->first.empty()) return "";
  const std::size_t others = calls_by_shapes.size() - 1;
  return commonest->first + (others == 0 ? "" : " and " + std::to_string(others) + " more");
}

}  // namespace

void StepTimes::add(const torch::autograd::profiler::ProfilerResult& recording) {
  for (const Event& root : recording.event_tree()) {
    if (is_span(*root) && root->name().starts_with(kStepSpan)) add_step(root);
    add_operators(root);
  }
}

void StepTimes::add_step(const Event& step) {
  ++num_steps_;
  steps_ns_ += duration_ns(*step);
  for (const Event& child : step->children_) {
    if (!is_span(*child)) continue;
    const std::string name = child->name();
    auto known = std::find_if(spans_ns_.begin(), spans_ns_.end(), [&](const auto& span) { return span.first == name; });
    if (known == spans_ns_.end()) known = spans_ns_.insert(known, {name, 0});
    known->second += duration_ns(*child);
  }
}

void StepTimes::add_operators(const Event& event) {
  const OperatorFields* fields = operator_fields(*event);
  if (fields && !is_span(*event)) {
    Operator& entry = operators_[fields->name_];
    ++entry.calls;
    entry.self_ns += self_ns(*event);
    ++entry.calls_by_shapes[shapes_of(*fields)];
  }
  for (const Event& child : event->children_) add_operators(child);
}

void StepTimes::summarise(ProfileSummary& summary) const {
  summary.num_steps = num_steps_;
  if (num_steps_ == 0) return;
  const double per_step = 1 / (kNsPerMs * static_cast<double>(num_steps_));
  summary.step_ms = static_cast<double>(steps_ns_) * per_step;
  std::int64_t rest = steps_ns_;
  for (const auto& [name, time] : spans_ns_) {
    summary.split_ms.emplace_back(name, static_cast<double>(time) * per_step);
    rest -= time;
  }
  summary.split_ms.emplace_back("other", static_cast<double>(std::max<std::int64_t>(0, rest)) * per_step);

  for (const auto& [name, entry] : operators_) {
    const double self_ms = static_cast<double>(entry.self_ns) * per_step;
    summary.operators.push_back({.name = name,
                                 .shapes = describe_shapes(entry.calls_by_shapes),
                                 .calls = entry.calls,
                                 .self_ms = self_ms,
                                 .share = summary.step_ms > 0 ? self_ms / summary.step_ms : 0});
  }
  std::ranges::stable_sort(summary.operators, std::greater{}, &OperatorTime::self_ms);
  if (summary.operators.size() > kNumOperators) summary.operators.resize(kNumOperators);
}

}  // namespace trainctl
