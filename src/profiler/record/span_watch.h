// Looks on while spans begin and end, for what a recording doesn't hold: the autograd nodes that were made inside of
// each, how free memory lies, and where gradients lie when an update begins.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "profiler/record/capture.h"

namespace trainctl::profiler {

/// Numbers of autograd's nodes: those made on the thread while the span was open.
struct SpanNodes {
  std::uint64_t thread = 0;  // as RecordFunction counts them
  std::int64_t first = 0;
  std::int64_t end = 0;
};

struct SpanWatchOptions {
  /// Called at most once in this time.
  std::int64_t free_space_every_ns = 1'000'000;
  std::function<runtime::FreeSpace()> free_space;
  /// Called where a step's update begins.
  std::function<std::vector<std::uintptr_t>()> gradients;
};

/// From construction to destruction. LibTorch's callbacks are plain functions, so there is one at a time.
class SpanWatch {
 public:
  explicit SpanWatch(SpanWatchOptions options);
  ~SpanWatch();
  SpanWatch(const SpanWatch&) = delete;
  SpanWatch& operator=(const SpanWatch&) = delete;

  /// By the spans' RecordFunction handles.
  const std::unordered_map<std::uint64_t, SpanNodes>& nodes() const { return nodes_; }
  std::vector<FreeSpaceSample> take_free_space() { return std::move(free_space_); }
  std::vector<GradientSample> take_gradients() { return std::move(gradients_); }

 private:
  static std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& span);
  static void ends(const at::RecordFunction& span, at::ObserverContext* context);
  void note_begin(const at::RecordFunction& span);
  void note_end(const at::RecordFunction& span);
  void sample(std::int64_t now);

  SpanWatchOptions options_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, SpanNodes> nodes_;
  std::vector<FreeSpaceSample> free_space_;
  std::vector<GradientSample> gradients_;
  bool gradients_wanted_ = false;
  at::CallbackHandle callback_;
};

}  // namespace trainctl::profiler
