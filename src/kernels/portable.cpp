#include "kernels/portable.h"

#include <torch/csrc/jit/frontend/tracer.h>

namespace trainctl::kernels {
namespace {

thread_local int num_scopes = 0;

}  // namespace

PortableOperators::PortableOperators() {
  ++num_scopes;
}

PortableOperators::~PortableOperators() {
  --num_scopes;
}

bool PortableOperators::are_wanted() {
  return num_scopes > 0 || torch::jit::tracer::isTracing();
}

}  // namespace trainctl::kernels
