// Whether a forward pass is being repeated for the tensors that the backward pass needs.
#pragma once

namespace trainctl::runtime {

/// `const Recomputation recomputation;` lasts until the end of its scope, on its thread (thread-local as autocast is:
/// a layer must know it, and is called through many hands). What a forward pass leaves behind beside its output, such
/// as running statistics, was left the first time and isn't left again.
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
