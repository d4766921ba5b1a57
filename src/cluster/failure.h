// What a rank says of its failure, or the others of one that can't, to everyone.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl {

struct Failure {
  std::int64_t rank = 0;
  std::string host;
  std::int64_t step = 0;
  std::string message;
  bool is_verdict = false;  // by another rank: `message` names who and what
};

}  // namespace trainctl
