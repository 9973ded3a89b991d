// Replays the corpus of the fuzz target of imports, whole and cut off at every length.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/import_input.h"

namespace prism::testing {
namespace {

TEST(ImportFuzzCorpusTest, EveryInputIsHandled) {
  const std::vector<std::string> paths = CorpusFiles(PRISM_IMPORT_CORPUS);
  ASSERT_GE(paths.size(), 8U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const Result<std::string> input = ReadFile(path);
    ASSERT_TRUE(input.ok()) << input.status().message();
    TryImport(*input);
  }
}

TEST(ImportFuzzCorpusTest, EveryBeginningOfAnInputIsHandled) {
  for (const std::string& path : CorpusFiles(PRISM_IMPORT_CORPUS)) {
    const Result<std::string> input = ReadFile(path);
    ASSERT_TRUE(input.ok()) << input.status().message();
    for (size_t size = 0; size < input->size(); ++size) {
      TryImport(std::string_view(*input).substr(0, size));
    }
  }
}

}  // namespace
}  // namespace prism::testing
