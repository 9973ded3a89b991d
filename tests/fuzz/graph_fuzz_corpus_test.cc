// Replays the corpus of the graph file's fuzz target: every input found so far, and files of format
// version 1, which every later program must still read.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "graph/file.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/graph_input.h"

namespace prism::testing {
namespace {

TEST(GraphFuzzCorpus, every_input_is_handled) {
  const std::vector<std::string> paths = CorpusFiles(PRISM_GRAPH_CORPUS);
  ASSERT_GE(paths.size(), 5U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    TryGraphFile(*ReadFile(path));
  }
}

TEST(GraphFuzzCorpus, whole_files_are_still_read) {
  int files = 0;
  for (const std::string& path : CorpusFiles(PRISM_GRAPH_CORPUS)) {
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
