#include "graph/base/hash.h"

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "graph/base/check.h"

namespace prism {

struct Hasher::State {
  XXH3_state_t xxh;
};

uint64_t Hash64(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  PRISM_CHECK(XXH3_64bits_reset(&state_->xxh) == XXH_OK);
}

Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::AddBytes(std::string_view bytes) {
  PRISM_CHECK(XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size()) == XXH_OK);
}

void Hasher::AddString(std::string_view text) {
  AddInteger(text.size());
  AddBytes(text);
}

void Hasher::AddInteger(uint64_t value) {
  std::array<char, 8> bytes{};
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xFFU);
    value >>= 8U;
  }
  AddBytes({bytes.data(), bytes.size()});
}

uint64_t Hasher::Digest() const {
  return XXH3_64bits_digest(&state_->xxh);
}

}  // namespace prism
