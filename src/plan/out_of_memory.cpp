#include "plan/out_of_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <sstream>

#include "core/error.h"
#include "core/text.h"
#include "plan/memory/kernel_workspaces.h"
#include "plan/time/device_rates.h"
#include "runtime/device.h"

namespace trainctl::plan {
namespace {

constexpr std::size_t kNumLargest = 5;

/// A tensor of the run that is still allocated.
struct LiveTensor {
  std::string name;
  std::string shape;
  std::int64_t bytes = 0;
};

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
}

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// A visitor that lists the tensors of an optimizer.
class SlotBytes final : public runtime::State {
 public:
  explicit SlotBytes(std::vector<LiveTensor>& found) : found_(found) {}
  void tensor(const std::string& name, at::Tensor& value) override { add(name, value); }
  void part(const std::string& name, at::Tensor& stretch, const runtime::PartOf&) override { add(name, stretch); }
  void integer(const std::string&, std::int64_t&) override {}
  void number(const std::string&, double&) override {}
  void text(const std::string&, std::string&) override {}
  std::int64_t total() const { return total_; }

 private:
  void add(const std::string& name, const at::Tensor& value) {
    total_ += bytes_of(value);
    if (value.defined()) found_.push_back({"the optimizer's " + name, shape_of(value), bytes_of(value)});
  }
  std::vector<LiveTensor>& found_;
  std::int64_t total_ = 0;
};

struct Reality {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  runtime::MemoryUse use;
  std::vector<LiveTensor> largest;
};

Reality reality_of(train::Run& run) {
  Reality found;
  found.use = runtime::device_memory(run.device);
  for (const optimizer::OptimizedParameter& parameter : run.parameters) {
    found.parameters += bytes_of(parameter.tensor);
    found.largest.push_back({parameter.name, shape_of(parameter.tensor), bytes_of(parameter.tensor)});
    const at::Tensor& gradient = parameter.tensor.grad();
    found.gradients += bytes_of(gradient);
    if (gradient.defined())
      found.largest.push_back({"the gradient of " + parameter.name, shape_of(gradient), bytes_of(gradient)});
  }
  SlotBytes slots(found.largest);
  run.optimizer->visit_state(slots);
  found.optimizer = slots.total();
  std::stable_sort(found.largest.begin(), found.largest.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  if (found.largest.size() > kNumLargest) found.largest.resize(kNumLargest);
  return found;
}

std::string text_of(const Reality& reality) {
  std::string text = "\n  reality: " + core::format_bytes(reality.use.peak) + " at most until it failed; parameters " +
                     core::format_bytes(reality.parameters) + ", gradients " + core::format_bytes(reality.gradients) +
                     ", optimizer " + core::format_bytes(reality.optimizer) +
                     "; the rest was activations and workspace";
  std::string list;
  for (const LiveTensor& tensor : reality.largest)
    list += (list.empty() ? "" : ", ") + tensor.name + " " + tensor.shape + " " + core::format_bytes(tensor.bytes);
  return text + (list.empty() ? "" : "\n  largest tensors: " + list);
}

std::string text_of(const DryRunStep& planned) {
  std::string text = "\n  plan: " + core::format_bytes(planned.at_peak.total()) + " at most, in " + planned.peak.phase;
  if (!planned.peak.block.empty()) text += " of " + planned.peak.block;
  std::vector<std::pair<std::int64_t, std::string>> purposes;
  for (std::size_t i = 0; i < kNumPurposes; ++i)
    if (planned.at_peak.bytes[i] > 0)
      purposes.emplace_back(planned.at_peak.bytes[i], std::string(name_of(static_cast<Purpose>(i))));
  std::sort(purposes.rbegin(), purposes.rend());
  for (std::size_t i = 0; i < purposes.size(); ++i)
    text += (i == 0 ? ": " : ", ") + purposes[i].second + " " + core::format_bytes(purposes[i].first);
  std::vector<BlockMemory> blocks = planned.blocks;
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const BlockMemory& a, const BlockMemory& b) { return a.activation_bytes > b.activation_bytes; });
  if (blocks.size() > kNumLargest) blocks.resize(kNumLargest);
  std::string list;
  for (const BlockMemory& block : blocks)
    list += (list.empty() ? "" : ", ") + (block.block.empty() ? std::string("outside of blocks") : block.block) + " " +
            core::format_bytes(block.activation_bytes);
  return text + (list.empty() ? "" : "\n  largest modules, by planned activations: " + list);
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // c10's plain allocator, and libraries under it, only say so.
  const std::string text = error.what();
  for (const char* words : {"can't allocate memory", "out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "ALLOC_FAILED"})
    if (text.find(words) != std::string::npos) return true;
  return false;
}

MemoryReport explain_out_of_memory(train::Run& run, const std::exception& error, const DryRunOptions& options,
                                   const MemoryLimit& limit) {
  std::string problem = core::as_error(error).what();
  constexpr std::string_view kPrefix = "out of memory: ";
  if (problem.starts_with(kPrefix)) problem.erase(0, kPrefix.size());
  MemoryReport report{.what = "out of memory at step " + core::format_count(run.step + 1) + ": " + problem,
                      .hint = "a smaller dataset.batch_size with more accumulation.steps, or activation_checkpointing"};
  const std::string reality = text_of(reality_of(run));
  try {
    // No kernel is run for it: without memory oneDNN's may end in a segmentation fault.
    KernelWorkspaces known(MeasuredRates::default_directory(), KernelWorkspaces::Kept::only);
    DryRunOptions measures_nothing = options;
    measures_nothing.workspaces = &known;
    const MemoryPlan plan = plan_memory(run.experiment, measures_nothing, limit, FitSearch::none);
    report.what += text_of(plan.step);
    if (!plan.changes.empty())
      report.hint = text_of(plan.changes.front().settings) + ", predicted to take " +
                    core::format_bytes(plan.changes.front().peak_bytes) + " at most";
  } catch (const std::exception&) {  // the plan needs some memory too, and may not know the model
    report.what += "\n  plan: none, `trainctl plan` says why";
  }
  report.what += reality;
  return report;
}

}  // namespace trainctl::plan
