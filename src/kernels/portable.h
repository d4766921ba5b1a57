// What is traced must run wherever LibTorch does: then the kernels of this folder give way to LibTorch's operators.
#pragma once

namespace trainctl::kernels {

/// A scope, `const PortableOperators portable;`, that lasts until the end of its block, on its thread. The kernels of a
/// model's layers then call nothing but at:: operators. Layers then use operators for decisions that they otherwise
/// make per batch on the host. The state is thread-local, as autocast's is.
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
