// Whether a forward pass is being repeated for the tensors that the backward pass needs.
#pragma once

namespace trainctl::runtime {

/// A scope, `const Recomputation recomputation;`, that lasts until the end of its block, on its thread. The state is
/// thread-local, as autocast's is, because layers read it below many calls. A forward pass has its side effects, such
/// as running statistics, in the first run; layers don't repeat them in this scope.
class Recomputation {
 public:
  Recomputation();
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;
  ~Recomputation();

  static bool is_running();

 private:
  bool outer_;
};

}  // namespace trainctl::runtime
