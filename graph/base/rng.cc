#include "graph/base/rng.h"

#include <bit>

#include "graph/base/check.h"
#include "graph/base/hash.h"
#include "graph/base/mix.h"

namespace prism {

Rng::Rng(uint64_t seed, std::string_view purpose) {
  uint64_t mixer = seed ^ Hash64(purpose);
  for (uint64_t& word : state_) {
    word = NextSplitMix(&mixer);
  }
}

uint64_t Rng::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

int64_t Rng::UniformInt(int64_t low, int64_t high) {
  PRISM_CHECK_LE(low, high);
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  if (count == 0) {  // all of int64
    return static_cast<int64_t>(Next());
  }
  // The lowest 2^64 mod count values are drawn again, so that every result is equally likely.
  const uint64_t threshold = (0 - count) % count;
  uint64_t bits = Next();
  while (bits < threshold) {
    bits = Next();
  }
  return static_cast<int64_t>(static_cast<uint64_t>(low) + bits % count);
}

double Rng::UniformReal() {
  return static_cast<double>(Next() >> 11U) * 0x1.0p-53;
}

}  // namespace prism
