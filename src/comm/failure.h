// What a rank says of its failure, or the others of one that can't, to everyone.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl::comm {

struct Failure {
  std::int64_t rank = 0;
  std::string host;
  std::int64_t step = 0;
  std::string message;
  bool is_diagnosis = false;  // by another rank: `message` names who and what
};

/// "rank 1 on node7 failed at step 12: …", or what the root cause says.
std::string text_of(const Failure& failure);

}  // namespace trainctl::comm
