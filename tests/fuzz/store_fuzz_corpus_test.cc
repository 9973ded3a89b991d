// Replays the corpus of the fuzz target of the store's protocol: every input found so far.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/store_input.h"

namespace prism::testing {
namespace {

TEST(StoreFuzzCorpus, every_input_is_handled) {
  const std::vector<std::string> paths = CorpusFiles(PRISM_STORE_CORPUS);
  ASSERT_GE(paths.size(), 10U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const Result<std::string> input = ReadFile(path);
    ASSERT_TRUE(input.ok()) << input.status().message();
    TryStore(*input);
  }
}

}  // namespace
}  // namespace prism::testing
