// A c10d backend that enters every collective into a journal, whoever started it, and leaves the rest to another
// backend.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/health/flight_recorder.h"

namespace trainctl::comm {

/// `group` is what the journal calls the members. Without a journal the backend itself is returned.
c10::intrusive_ptr<c10d::Backend> recorded(c10::intrusive_ptr<c10d::Backend> backend, std::string group,
                                           std::shared_ptr<FlightRecorder> journal);

}  // namespace trainctl::comm
