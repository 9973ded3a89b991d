// Strong integer ids: a rank cannot be passed where a communicator is expected. Header-only, and
// depends on nothing but the standard library, because shim/ includes it too.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace prism {

// An id of type Tag. Default-constructed ids are invalid (all bits set). Ordered and hashable.
template <typename Tag, typename Int = uint32_t>
class Id {
 public:
  using ValueType = Int;

  constexpr Id() = default;

  constexpr explicit Id(Int value) : value_(value) {}

  [[nodiscard]] constexpr Int value() const { return value_; }

  [[nodiscard]] constexpr bool valid() const { return value_ != static_cast<Int>(-1); }

  constexpr auto operator<=>(const Id&) const = default;

 private:
  Int value_ = static_cast<Int>(-1);
};

using Rank = Id<struct RankTag>;        // global rank of the target job
using CommId = Id<struct CommTag>;      // index into Graph::communicators
using StringId = Id<struct StringTag>;  // index into Graph::strings

}  // namespace prism

template <typename Tag, typename Int>
struct std::hash<prism::Id<Tag, Int>> {
  size_t operator()(prism::Id<Tag, Int> id) const noexcept { return std::hash<Int>()(id.value()); }
};
