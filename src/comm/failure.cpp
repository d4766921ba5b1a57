#include "comm/failure.h"

namespace trainctl::comm {

std::string text_of(const Failure& failure) {
  if (failure.is_diagnosis) return failure.message;
  return "rank " + std::to_string(failure.rank) + " on " + failure.host + " failed at step " +
         std::to_string(failure.step) + ": " + failure.message;
}

}  // namespace trainctl::comm
