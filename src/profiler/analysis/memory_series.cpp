#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "core/units.h"
#include "profiler/analysis/analysis.h"

namespace trainctl::profiler {

const char* name_of(MemoryCategory category) {
  static constexpr std::array kNames{"parameters", "gradients", "optimizer", "activations", "workspace", "other"};
  return kNames[static_cast<std::size_t>(category)];
}

namespace {

constexpr std::size_t kMaxPoints = 1000;
constexpr std::size_t kMaxMaps = 200;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

constexpr std::size_t index_of(MemoryCategory category) {
  return static_cast<std::size_t>(category);
}

/// An allocation, from its beginning to its release.
struct Life {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = kNever;
  std::int64_t bytes = 0;
  std::uintptr_t address = 0;
  std::int32_t event = -1;
  MemoryCategory category = MemoryCategory::workspace;
};

class MemoryHistory {
 public:
  MemoryHistory(const Capture& capture, const StaticMemory& facts) : capture_(capture), facts_(facts) {
    if (capture.steps.size() > capture.last_cycle_step) origin_ns_ = capture.steps[capture.last_cycle_step].begin_ns;
    find_lives();
    find_categories();
  }

  MemorySummary summarise() {
    MemorySummary summary;
    summary.limit_mib = static_cast<double>(facts_.limit) / core::kMiB;
    walk(summary);
    find_peak(summary);
    summary.fragmentation = fragmentation();
    return summary;
  }

  /// Returns the activations of each module at the moment of the most activations, in MiB.
  std::map<std::int32_t, double> kept_by_module() const {
    std::map<std::int32_t, double> kept;
    for (const Life& life : lives_)
      if (life.category == MemoryCategory::activations && life.event >= 0 && first_step_of(life))
        kept[capture_.event(life.event).module] += static_cast<double>(life.bytes) / core::kMiB;
    return kept;
  }

  /// Returns the peak during an event of the last cycle, in MiB.
  double peak_during(const CapturedEvent& event) const {
    const auto begin = std::ranges::lower_bound(allocations(), event.begin_ns, {}, &CapturedAllocation::ns);
    std::int64_t peak = begin == allocations().begin() ? 0 : std::prev(begin)->allocated;
    for (auto one = begin; one != allocations().end() && one->ns <= event.end_ns; ++one)
      peak = std::max(peak, one->allocated);
    return static_cast<double>(peak) / core::kMiB;
  }

 private:
  std::ranges::subrange<std::vector<CapturedAllocation>::const_iterator> allocations() const {
    return {capture_.allocations.begin() + static_cast<std::ptrdiff_t>(capture_.last_cycle_allocation),
            capture_.allocations.end()};
  }

  std::int32_t step_of(const Life& life) const { return life.event < 0 ? -1 : capture_.event(life.event).step; }
  bool first_step_of(const Life& life) const {
    return step_of(life) == static_cast<std::int32_t>(capture_.last_cycle_step);
  }

  void find_lives() {
    std::unordered_map<std::uintptr_t, std::size_t> live;
    for (const CapturedAllocation& one : allocations()) {
      if (one.bytes > 0) {
        live[one.address] = lives_.size();
        lives_.push_back({.begin_ns = one.ns, .bytes = one.bytes, .address = one.address, .event = one.event});
      } else if (const auto found = live.find(one.address); found != live.end()) {
        lives_[found->second].end_ns = one.ns;
        live.erase(found);
      }
    }
  }

  /// Returns the end of the stage that an event lies in. A step may have several spans of a stage, such as forward.
  std::int64_t end_of_stage(std::int32_t index) const {
    std::int64_t end = 0;
    for (; index >= 0; index = capture_.event(index).parent) {
      const CapturedEvent& event = capture_.event(index);
      if (event.kind == EventKind::span && event.name == event.stage) end = event.end_ns;
    }
    return end;
  }

  void find_categories() {
    for (Life& life : lives_) {
      const std::int32_t stage = life.event < 0 ? -1 : capture_.event(life.event).stage;
      const bool in_step = step_of(life) >= 0;
      const std::string& name = stage < 0 ? "" : capture_.name_of(stage);
      if (name == "forward")
        life.category =
            life.end_ns > end_of_stage(life.event) ? MemoryCategory::activations : MemoryCategory::workspace;
      else if (name == "optimizer" && life.end_ns == kNever)
        life.category = MemoryCategory::optimizer;
      else if (name.empty() || name == "data" || name == "to_device" || name == "log")
        life.category = in_step && name.empty() && life.event >= 0 && capture_.event(life.event).is_backward
                            ? MemoryCategory::workspace
                            : MemoryCategory::other;
    }
    for (const GradientSample& sample : capture_.gradients) mark_gradients(sample);
  }

  void mark_gradients(const GradientSample& sample) {
    for (Life& life : lives_)
      if (life.begin_ns < sample.ns && life.end_ns > sample.ns &&
          std::ranges::binary_search(sample.addresses, life.address))
        life.category = MemoryCategory::gradients;
  }

  /// Sums allocations by category over time. Of each interval the highest point is kept.
  void walk(MemorySummary& summary) {
    if (allocations().empty()) return;
    std::unordered_map<std::uintptr_t, const Life*> live;
    std::array<std::int64_t, kNumCategories> bytes{};
    bytes[index_of(MemoryCategory::parameters)] = facts_.parameters;
    bytes[index_of(MemoryCategory::optimizer)] = facts_.optimizer;
    const std::int64_t begin = allocations().front().ns;
    const std::int64_t width =
        std::max<std::int64_t>(1, (allocations().back().ns - begin) / static_cast<std::int64_t>(kMaxPoints) + 1);
    std::int64_t stretch = -1;
    std::size_t next = 0;
    for (const CapturedAllocation& one : allocations()) {
      if (one.bytes > 0) {
        const Life& life = lives_[next++];
        live[one.address] = &life;
        bytes[index_of(life.category)] += one.bytes;
      } else if (const auto found = live.find(one.address); found != live.end()) {
        bytes[index_of(found->second->category)] -= found->second->bytes;
        live.erase(found);
      }
      const MemoryPoint point = point_of(one, bytes);
      const std::int64_t its_stretch = (one.ns - begin) / width;
      if (its_stretch != stretch || summary.series.empty())
        summary.series.push_back(point);
      else if (point.allocated > summary.series.back().allocated)
        summary.series.back() = point;
      stretch = its_stretch;
      if (point.allocated > summary.peak.allocated) {
        summary.peak = point;
        peak_ = &one;
      }
    }
  }

  MemoryPoint point_of(const CapturedAllocation& one, const std::array<std::int64_t, kNumCategories>& bytes) const {
    MemoryPoint point{.t_ms = static_cast<double>(one.ns - origin_ns_) / core::kNsPerMs,
                      .allocated = static_cast<double>(one.allocated) / core::kMiB,
                      .reserved = static_cast<double>(one.reserved) / core::kMiB,
                      .largest_free = {}};
    double known = 0;
    for (std::size_t i = 0; i < kNumCategories; ++i)
      if (i != index_of(MemoryCategory::other)) known += point.mib[i] = static_cast<double>(bytes[i]) / core::kMiB;
    point.mib[index_of(MemoryCategory::other)] = std::max(0.0, point.allocated - known);
    const auto sample = std::ranges::upper_bound(capture_.free_space, one.ns, {}, &FreeSpaceSample::ns);
    if (sample != capture_.free_space.begin())
      point.largest_free = static_cast<double>(std::prev(sample)->space.largest) / core::kMiB;
    return point;
  }

  void find_peak(MemorySummary& summary) const {
    if (peak_ == nullptr) return;
    if (peak_->event >= 0 && capture_.event(peak_->event).stage >= 0)
      summary.peak_phase = capture_.name_of(capture_.event(peak_->event).stage);
    std::map<std::int32_t, double> by_module;
    for (const Life& life : lives_) {
      if (life.begin_ns > peak_->ns || life.end_ns <= peak_->ns) continue;
      if (life.category == MemoryCategory::other || life.category == MemoryCategory::optimizer) continue;
      by_module[life.event < 0 ? -1 : capture_.event(life.event).module] +=
          static_cast<double>(life.bytes) / core::kMiB;
    }
    for (const auto& [module, mib] : by_module)
      summary.peak_by_module.emplace_back(module < 0 ? "" : capture_.name_of(module), mib);
    std::ranges::stable_sort(summary.peak_by_module, std::greater{}, &std::pair<std::string, double>::second);
  }

  Fragmentation fragmentation() const {
    Fragmentation map;
    for (std::size_t i = 0; i < runtime::FreeSpace::kNumClasses; ++i)
      map.classes_mib.push_back(static_cast<double>(runtime::FreeSpace::edge_of(i)) / core::kMiB);
    std::vector<const FreeSpaceSample*> samples;
    for (const FreeSpaceSample& sample : capture_.free_space)
      if (sample.ns >= origin_ns_) samples.push_back(&sample);
    const std::size_t every = samples.size() / kMaxMaps + 1;
    for (std::size_t i = 0; i < samples.size(); i += every) {
      const FreeSpaceSample& sample = *samples[i];
      Fragmentation::Point point{.t_ms = static_cast<double>(sample.ns - origin_ns_) / core::kNsPerMs,
                                 .free_mib = {},
                                 .reserved_mib = static_cast<double>(sample.space.reserved) / core::kMiB,
                                 .allocated_mib = static_cast<double>(sample.space.allocated) / core::kMiB,
                                 .largest_free_mib = static_cast<double>(sample.space.largest) / core::kMiB};
      for (const std::int64_t bytes : sample.space.by_class)
        point.free_mib.push_back(static_cast<double>(bytes) / core::kMiB);
      map.points.push_back(std::move(point));
    }
    if (!map.points.empty()) {
      const Fragmentation::Point& last = map.points.back();
      double free = 0;
      for (const double mib : last.free_mib) free += mib;
      map.share = free > 0 ? std::max(0.0, 1 - last.largest_free_mib / free) : 0;
    }
    return map;
  }

  const Capture& capture_;
  const StaticMemory& facts_;
  std::int64_t origin_ns_ = 0;
  std::vector<Life> lives_;  // in order of begin
  const CapturedAllocation* peak_ = nullptr;
};

}  // namespace

MemorySummary analyse_memory(const Capture& capture, const StaticMemory& facts, ProfileSummary& summary) {
  MemoryHistory history(capture, facts);
  if (capture.allocations.size() > capture.last_cycle_allocation && capture.kernels.empty()) {
    std::map<std::int32_t, double> peaks;
    for (const CapturedEvent& event : capture.events) {
      const bool counts =
          event.kind == EventKind::module || (event.kind == EventKind::span && event.stage == event.name);
      if (!counts || event.step < static_cast<std::int32_t>(capture.last_cycle_step)) continue;
      double& peak = peaks[event.name];
      peak = std::max(peak, history.peak_during(event));
    }
    for (SpanTime& span : summary.steps.spans)
      if (const auto peak = peaks.find(capture.find(span.name)); peak != peaks.end()) span.peak_mib = peak->second;
    for (ModuleSummary& module : summary.modules)
      if (const auto peak = peaks.find(capture.find(module.name)); peak != peaks.end()) module.peak_mib = peak->second;
  }
  // Of a module with those that it called, whose names begin with its own or which it called in the forward pass.
  std::map<std::int32_t, std::int32_t> callers;
  for (const CapturedEvent& event : capture.events)
    if (event.kind == EventKind::module)
      callers.try_emplace(event.name, event.parent < 0 ? -1 : capture.event(event.parent).module);
  std::map<std::int32_t, double> kept;
  for (const auto& [module, mib] : history.kept_by_module())
    for (std::int32_t its = module; its >= 0; its = callers.contains(its) ? callers.at(its) : -1) kept[its] += mib;
  for (ModuleSummary& module : summary.modules)
    if (const auto found = kept.find(capture.find(module.name)); found != kept.end())
      module.activations_mib = found->second;
  return history.summarise();
}

}  // namespace trainctl::profiler
