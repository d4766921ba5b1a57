// Which module a backward operator works for: the one inside which autograd made its node, found by the node's number.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "profiler/record/capture.h"
#include "profiler/record/span_watch.h"

namespace trainctl::profiler {

/// Sets the module of nodes' events and of all that they call. `spans`: by event. Accumulating a gradient is part of
/// what made it, which comes just before.
void attribute_backward(Capture& capture, std::size_t first, const std::unordered_map<std::int32_t, SpanNodes>& spans);

}  // namespace trainctl::profiler
