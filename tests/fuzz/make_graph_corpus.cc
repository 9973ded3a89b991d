// Writes the seeds of the graph file's fuzz corpus: make_graph_corpus FOLDER. Small random graphs
// as whole files (*.prism), as lists of chunks (*.chunks) and damaged.
#include <cstdio>
#include <string>
#include <string_view>

#include "graph/base/file.h"
#include "graph/file.h"
#include "tests/support/chunks.h"
#include "tests/support/random_graph.h"

namespace {

using prism::testing::Chunk;
using prism::testing::RandomGraphOptions;

std::string AsChunkList(std::string_view file) {
  std::string list;
  for (const Chunk& chunk : prism::testing::SplitGraphFile(file)) {
    list.push_back(static_cast<char>(chunk.kind));
    list.push_back(static_cast<char>(chunk.payload.size() & 0xFFU));
    list.push_back(static_cast<char>(chunk.payload.size() >> 8U));
    list.append(chunk.payload);
  }
  return list;
}

prism::Status WriteCorpus(const std::string& folder) {
  const auto file_of = [](const RandomGraphOptions& options) {
    return prism::graph::EncodeGraph(prism::testing::RandomGraph(options));
  };
  const std::string plain = file_of({.seed = 1, .base_ranks = 2, .copies = 2, .events = 30});
  const std::string larger = file_of({.seed = 2, .base_ranks = 3, .copies = 3, .events = 150});
  const std::string single =
      file_of({.seed = 3, .base_ranks = 1, .copies = 1, .events = 0, .families = 0});
  const auto write = [&folder](const std::string& name, std::string_view bytes) {
    return prism::WriteFileAtomically(folder + "/" + name, bytes);
  };
  PRISM_RETURN_IF_ERROR(write("plain.prism", plain));
  PRISM_RETURN_IF_ERROR(write("larger.prism", larger));
  PRISM_RETURN_IF_ERROR(write("single_rank.prism", single));
  PRISM_RETURN_IF_ERROR(write("plain.chunks", AsChunkList(plain)));
  PRISM_RETURN_IF_ERROR(write("larger.chunks", AsChunkList(larger)));
  PRISM_RETURN_IF_ERROR(write("single_rank.chunks", AsChunkList(single)));
  PRISM_RETURN_IF_ERROR(write("truncated", std::string_view(plain).substr(0, plain.size() / 2)));
  return write("empty", "");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_graph_corpus FOLDER\n");
    return 2;
  }
  const prism::Status status = WriteCorpus(argv[1]);
  if (!status.ok()) {
    std::fprintf(stderr, "make_graph_corpus: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
