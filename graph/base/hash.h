// 64-bit hashes for checksums and structural comparison: XXH3, so stable across machines, versions
// and runs. Not for secrets.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string_view>

namespace prism {

uint64_t Hash64(std::string_view bytes);

// The hash of a sequence of values. Integers go in as 8 little-endian bytes and strings with their
// length in front, so two different sequences never feed the same bytes.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void AddBytes(std::string_view bytes);  // raw, without a length
  void AddString(std::string_view text);
  void AddInteger(uint64_t value);

  template <std::integral Int>
  void Add(Int value) {
    AddInteger(static_cast<uint64_t>(value));
  }

  [[nodiscard]] uint64_t Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace prism
