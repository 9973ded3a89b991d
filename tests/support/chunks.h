// Splits graph files and reassembles them with correct hashes, so that tests can damage what the
// hashes would otherwise protect.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace prism::testing {

struct Chunk {
  uint32_t kind = 0;
  std::string payload;  // decompressed
};

// The chunks of an undamaged graph file.
std::vector<Chunk> SplitGraphFile(std::string_view file);

std::string JoinGraphFile(const std::vector<Chunk>& chunks);

}  // namespace prism::testing
