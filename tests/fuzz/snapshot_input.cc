#include "tests/fuzz/snapshot_input.h"

#include <string>

#include "graph/base/check.h"
#include "replayer/memory/snapshot.h"

namespace prism::testing {

void TrySnapshot(std::string_view input) {
  const Result<replayer::MemorySnapshot> decoded = replayer::DecodeSnapshot(input, "fuzz input");
  if (!decoded.ok()) {
    PRISM_CHECK(decoded.status().code() == StatusCode::kBadFile);
    return;
  }
  const std::string encoded = replayer::EncodeSnapshot(*decoded);
  const Result<replayer::MemorySnapshot> again = replayer::DecodeSnapshot(encoded, "own encoding");
  PRISM_CHECK_MSG(again.ok(), again.status().message());
  PRISM_CHECK(*again == *decoded);
}

}  // namespace prism::testing
