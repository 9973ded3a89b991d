// Replays the corpus of the graph file's fuzz target: every input found so far, and files of format
// version 1 that every later program must still read.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "graph/file.h"
#include "tests/fuzz/graph_file_input.h"

namespace prism::testing {
namespace {

std::vector<std::string> Corpus() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(PRISM_GRAPH_CORPUS)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(GraphFuzzCorpusTest, EveryInputIsHandled) {
  const std::vector<std::string> paths = Corpus();
  ASSERT_GE(paths.size(), 5U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    TryGraphFile(*ReadFile(path));
  }
}

TEST(GraphFuzzCorpusTest, WholeFilesAreStillRead) {
  int files = 0;
  for (const std::string& path : Corpus()) {
    if (path.ends_with(".prism")) {
      const Result<graph::Graph> graph = graph::ReadGraph(path);
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      EXPECT_GT(graph->ranks.size(), 0U);
      ++files;
    }
  }
  EXPECT_GE(files, 2);
}

}  // namespace
}  // namespace prism::testing
