// Replays the corpus of the memory snapshots' fuzz target: snapshots that Python wrote in several
// protocols, and pickles that must be refused.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "replayer/memory/snapshot.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/snapshot_input.h"

namespace prism::testing {
namespace {

TEST(SnapshotFuzzCorpusTest, EveryInputIsHandled) {
  const std::vector<std::string> paths = CorpusFiles(PRISM_SNAPSHOT_CORPUS);
  ASSERT_GE(paths.size(), 6U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const std::string bytes = *ReadFile(path);
    TrySnapshot(bytes);
    for (size_t size = 0; size < bytes.size(); size += 7) {
      TrySnapshot(std::string_view(bytes).substr(0, size));
    }
  }
}

TEST(SnapshotFuzzCorpusTest, OnlySnapshotsAreRead) {
  int snapshots = 0;
  for (const std::string& path : CorpusFiles(PRISM_SNAPSHOT_CORPUS)) {
    SCOPED_TRACE(path);
    const Result<replayer::MemorySnapshot> snapshot =
        replayer::DecodeSnapshot(*ReadFile(path), "input");
    EXPECT_EQ(snapshot.ok(), path.ends_with(".pickle"));
    snapshots += snapshot.ok() ? 1 : 0;
  }
  EXPECT_GE(snapshots, 3);
}

}  // namespace
}  // namespace prism::testing
