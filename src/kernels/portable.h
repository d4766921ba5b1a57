// What is traced must run wherever LibTorch does: then the kernels of this folder give way to LibTorch's operators.
#pragma once

namespace trainctl::kernels {

/// `const PortableOperators portable;` lasts until the end of its scope, on its thread: every front door of kernels/
/// then calls nothing but at:: operators, and layers say in operators what they would else decide for a batch on the
/// host. Thread-local as autocast is.
class PortableOperators {
 public:
  PortableOperators();
  PortableOperators(const PortableOperators&) = delete;
  PortableOperators& operator=(const PortableOperators&) = delete;
  ~PortableOperators();

  /// Whether this thread is in such a scope, or LibTorch traces it.
  static bool are_wanted();
};

}  // namespace trainctl::kernels
