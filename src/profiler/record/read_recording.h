// From Kineto's recording to a Capture.
#pragma once

#include <c10/core/Device.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <string>
#include <unordered_map>

#include "profiler/record/capture.h"
#include "profiler/record/span_watch.h"

namespace trainctl::profiler {

struct RecordingContext {
  c10::Device device;                    // whose memory is followed
  const std::set<std::string>& modules;  // spans that are modules
  const std::unordered_map<std::uint64_t, SpanNodes>& nodes;
};

/// Appends one cycle.
void append(Capture& capture, const torch::autograd::profiler::ProfilerResult& recording,
            const RecordingContext& context);

}  // namespace trainctl::profiler
