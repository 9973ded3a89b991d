// Integer division that rounds up. Both arguments are positive, or the first is 0.
#pragma once

#include <concepts>

namespace prism {

template <std::integral Int>
constexpr Int DivideUp(Int value, Int part) {
  return (value + part - 1) / part;
}

// The next multiple of `unit`.
template <std::integral Int>
constexpr Int RoundUp(Int value, Int unit) {
  return DivideUp(value, unit) * unit;
}

}  // namespace prism
