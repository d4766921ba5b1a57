#include "runtime/recomputation.h"

namespace trainctl::runtime {
namespace {

thread_local bool running = false;

}  // namespace

Recomputation::Recomputation() : outer_(running) {
  running = true;
}

Recomputation::~Recomputation() {
  running = outer_;
}

bool Recomputation::is_running() {
  return running;
}

}  // namespace trainctl::runtime
