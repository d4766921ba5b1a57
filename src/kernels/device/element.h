// The types of a tensor's elements, from run time to compile time.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <type_traits>

namespace trainctl::kernels::device {

enum class Element { fp32, bf16, fp16 };

/// Calls use(zero) with a zero of the type.
template <class Use>
void with_element(Element element, const Use& use) {
  switch (element) {
    case Element::fp32:
      return use(0.0F);
    case Element::bf16:
      return use(c10::BFloat16());
    case Element::fp16:
      return use(c10::Half());
  }
}

/// Calls use(std::integral_constant) with one of the values.
template <auto... kValues, class Value, class Use>
void with_constant(Value value, const Use& use) {
  const bool found = ((value == kValues && (use(std::integral_constant<decltype(kValues), kValues>()), true)) || ...);
  static_cast<void>(found);
}

}  // namespace trainctl::kernels::device
