#include "tests/fuzz/graph_input.h"

#include <algorithm>
#include <string>
#include <vector>

#include "graph/base/check.h"
#include "graph/file.h"
#include "tests/support/chunks.h"

namespace prism::testing {
namespace {

std::vector<Chunk> ChunksOf(std::string_view input) {
  std::vector<Chunk> chunks;
  while (input.size() >= 3) {
    const auto kind = static_cast<unsigned char>(input[0]);
    const size_t size =
        static_cast<unsigned char>(input[1]) + (size_t{static_cast<unsigned char>(input[2])} << 8U);
    input.remove_prefix(3);
    chunks.push_back({.kind = kind, .payload = std::string(input.substr(0, size))});
    input.remove_prefix(std::min(size, input.size()));
  }
  return chunks;
}

}  // namespace

void TryGraphFile(std::string_view input) {
  const bool is_file = input.starts_with("PRISMGR\n");
  const std::string file = is_file ? std::string(input) : JoinGraphFile(ChunksOf(input));
  const Result<graph::Graph> decoded = graph::DecodeGraph(file, "fuzz input");
  if (!decoded.ok()) {
    PRISM_CHECK(decoded.status().code() == StatusCode::kBadFile);
    return;
  }
  // Compared as bytes, not as graphs: a damaged parameter may be a NaN, which equals nothing.
  const std::string encoded = graph::EncodeGraph(*decoded);
  const Result<graph::Graph> again = graph::DecodeGraph(encoded, "own encoding");
  PRISM_CHECK_MSG(again.ok(), again.status().message());
  PRISM_CHECK(graph::EncodeGraph(*again) == encoded);
}

}  // namespace prism::testing
