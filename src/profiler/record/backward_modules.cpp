#include "profiler/record/backward_modules.h"

#include <algorithm>
#include <limits>
#include <map>

namespace trainctl::profiler {
namespace {

/// The module of the nodes from number `first` to the next change.
struct ModuleChange {
  std::int64_t first;
  std::int32_t module;
};

/// The modules of nodes, by thread. A thread's events are ordered, so modules are entered and left in that order.
class ModuleOfNode {
 public:
  void enter(std::uint64_t thread, std::int64_t first, std::int64_t end, std::int32_t module) {
    Thread& its = threads_[thread];
    leave_until(its, first, module);
    its.changes.push_back({first, module});
    its.open.push_back({end, module});
  }

  void finish() {
    for (auto& [thread, its] : threads_) leave_until(its, std::numeric_limits<std::int64_t>::max(), -1);
  }

  std::int32_t find(std::uint64_t thread, std::int64_t node) const {
    const auto its = threads_.find(thread);
    if (its == threads_.end()) return -1;
    const std::vector<ModuleChange>& changes = its->second.changes;
    const auto after =
        std::upper_bound(changes.begin(), changes.end(), node,
                         [](std::int64_t number, const ModuleChange& change) { return number < change.first; });
    return after == changes.begin() ? -1 : std::prev(after)->module;
  }

 private:
  struct Open {
    std::int64_t end;
    std::int32_t module;
  };
  struct Thread {
    std::vector<ModuleChange> changes;
    std::vector<Open> open;
  };

  /// Leaves the modules that end at or before `first`, unless one of them is the parent of the next.
  static void leave_until(Thread& its, std::int64_t first, std::int32_t) {
    while (!its.open.empty() && its.open.back().end <= first) {
      const std::int64_t end = its.open.back().end;
      its.open.pop_back();
      its.changes.push_back({end, its.open.empty() ? -1 : its.open.back().module});
    }
  }

  std::map<std::uint64_t, Thread> threads_;
};

}  // namespace

void attribute_backward(Capture& capture, std::size_t first, const std::unordered_map<std::int32_t, SpanNodes>& spans) {
  ModuleOfNode modules;
  for (std::size_t i = first; i < capture.events.size(); ++i) {
    const CapturedEvent& event = capture.events[i];
    if (event.kind != EventKind::module) continue;
    const auto nodes = spans.find(static_cast<std::int32_t>(i));
    if (nodes != spans.end()) modules.enter(nodes->second.thread, nodes->second.first, nodes->second.end, event.name);
  }
  modules.finish();

  std::map<std::int32_t, std::int32_t> last;  // by thread
  for (std::size_t i = first; i < capture.events.size(); ++i) {
    CapturedEvent& event = capture.events[i];
    if (event.is_backward) {
      const bool accumulates = capture.name_of(event.name).ends_with("AccumulateGrad");
      const std::int32_t found =
          accumulates ? -1 : modules.find(static_cast<std::uint64_t>(event.forward_thread), event.sequence);
      event.module = accumulates && last.contains(event.thread) ? last[event.thread] : found;
      last[event.thread] = event.module;
    } else if (event.parent >= 0 && event.module < 0) {
      event.module = capture.event(event.parent).module;
    }
  }
}

}  // namespace trainctl::profiler
