// The graph file: the same graph comes back, damage is always noticed, size and memory are bounded.
#include "graph/file.h"

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "graph/base/file.h"
#include "graph/base/rng.h"
#include "tests/support/changed_jobs.h"
#include "tests/support/chunks.h"
#include "tests/support/random_graph.h"
#include "tests/support/scratch_folder.h"

namespace prism::graph {
namespace {

using testing::RandomGraph;
using testing::RandomOptions;

Graph SmallGraph() {
  return RandomGraph({.seed = 5, .base_ranks = 2, .copies = 2, .events = 40});
}

// Forward and backward of the layers of a few micro-batches, as a pipeline stage issues them.
Program PeriodicProgram(int micro_batches, int layers, int kernels_a_layer) {
  Program program;
  program.comm_slot_count = 1;
  program.stream_count = 2;
  program.collectives.push_back({.bytes = int64_t{1} << 25U});
  const auto append = [&](OpKind kind, uint16_t stream, uint16_t slot, uint32_t dep) {
    const uint32_t signature = kind == OpKind::kKernel ? (program.size() + 1) * 7 % 3 : 0;
    program.Append(
        {.kind = kind, .stream = stream, .comm_slot = slot, .signature = signature, .dep = dep});
  };
  for (int layer = 0; layer < micro_batches * layers; ++layer) {
    for (int kernel = 0; kernel < kernels_a_layer; ++kernel) {
      append(OpKind::kKernel, 0, kNoSlot, kNoDep);
    }
    append(OpKind::kEventRecord, 0, kNoSlot, kNoDep);
    append(OpKind::kEventWait, 1, kNoSlot, program.size() - 1);
    append(OpKind::kCollective, 1, 0, kNoDep);
  }
  return program;
}

RC_GTEST_PROP(GraphFileProperty, decoding_gives_the_encoded_graph, (uint64_t seed)) {
  const Graph graph = RandomGraph(RandomOptions(seed));
  const std::string bytes = EncodeGraph(graph);
  const Result<Graph> decoded = DecodeGraph(bytes, "memory");
  RC_ASSERT(decoded.ok());
  RC_ASSERT(*decoded == graph);
  RC_ASSERT(EncodeGraph(*decoded) == bytes);
}

// Payloads with a few bytes changed but correct hashes, as only an attacker makes them: either
// refused, or a graph whose encoding decodes to that graph again.
RC_GTEST_PROP(GraphFileProperty, changed_payloads_are_refused_or_consistent, (uint64_t seed)) {
  std::vector<testing::Chunk> chunks = testing::SplitGraphFile(EncodeGraph(SmallGraph()));
  Rng rng(seed, "mutation");
  for (int change = 0; change < 3; ++change) {
    std::string& payload =
        chunks[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(chunks.size()) - 1))]
            .payload;
    if (!payload.empty()) {
      payload[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(payload.size()) - 1))] =
          static_cast<char>(rng.Next() & 0xFFU);
    }
  }
  const Result<Graph> decoded = DecodeGraph(testing::JoinGraphFile(chunks), "memory");
  if (decoded.ok()) {
    const Result<Graph> again = DecodeGraph(EncodeGraph(*decoded), "memory");
    RC_ASSERT(again.ok());
  } else {
    RC_ASSERT(decoded.status().code() == StatusCode::kBadFile);
  }
}

TEST(GraphFile, every_changed_byte_is_noticed) {
  const std::string bytes = EncodeGraph(SmallGraph());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned mask : {0x01U, 0x80U, 0xFFU}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ mask);
      const Result<Graph> decoded = DecodeGraph(damaged, "memory");
      ASSERT_FALSE(decoded.ok()) << "byte " << at << " of " << bytes.size();
      ASSERT_EQ(decoded.status().code(), StatusCode::kBadFile);
    }
  }
}

TEST(GraphFile, every_truncation_is_noticed) {
  const std::string bytes = EncodeGraph(SmallGraph());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Result<Graph> decoded = DecodeGraph(bytes.substr(0, size), "memory");
    ASSERT_FALSE(decoded.ok()) << "at " << size << " of " << bytes.size();
    ASSERT_EQ(decoded.status().code(), StatusCode::kBadFile);
  }
  EXPECT_FALSE(DecodeGraph(bytes + '\0', "memory").ok());
}

// An intact chunk in the wrong place keeps its hash; order and index catch it.
TEST(GraphFile, missing_and_swapped_chunks_are_noticed) {
  const std::vector<testing::Chunk> chunks = testing::SplitGraphFile(EncodeGraph(SmallGraph()));
  for (size_t at = 0; at < chunks.size(); ++at) {
    std::vector<testing::Chunk> missing = chunks;
    missing.erase(missing.begin() + static_cast<ptrdiff_t>(at));
    EXPECT_FALSE(DecodeGraph(testing::JoinGraphFile(missing), "memory").ok()) << at;
    std::vector<testing::Chunk> twice = chunks;
    twice.insert(twice.begin() + static_cast<ptrdiff_t>(at), chunks[at]);
    EXPECT_FALSE(DecodeGraph(testing::JoinGraphFile(twice), "memory").ok()) << at;
  }
}

TEST(GraphFile, message_names_file_chunk_and_offset) {
  std::string bytes = EncodeGraph(SmallGraph());
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  EXPECT_EQ(DecodeGraph(bytes, "a.prism").status().message(),
            "a.prism: damaged head chunk at offset 16: hash does not match");
  EXPECT_EQ(DecodeGraph("ELF and more than eight bytes", "a.prism").status().message(),
            "a.prism: not a graph file");
}

TEST(GraphFile, periodic_program_of_many_chunks_is_small) {
  Graph graph = RandomGraph({.seed = 1, .base_ranks = 1, .copies = 1, .events = 0, .families = 1});
  KernelSignature unnamed;
  unnamed.name = StringId(0);
  unnamed.framework_op = StringId(0);
  graph.signatures.resize(3, unnamed);
  graph.roles[0].program = PeriodicProgram(24, 40, 200);
  graph.ranks.comm_ids = {0};
  graph.ranks.comm_begin = {0, 1};
  const uint32_t ops = graph.roles[0].program.size();
  ASSERT_GT(ops, 2U << 16U);
  const std::string bytes = EncodeGraph(graph);
  EXPECT_LT(static_cast<double>(bytes.size()) / ops, 1.0);
  EXPECT_EQ(*DecodeGraph(bytes, "memory"), graph);
}

// Nothing repeats here but the kinds of op: the worst case for the file.
TEST(GraphFile, random_program_takes_few_bytes_an_op) {
  const Graph graph =
      RandomGraph({.seed = 2, .base_ranks = 1, .copies = 1, .events = 100'000, .families = 3});
  const std::string bytes = EncodeGraph(graph);
  const double bytes_per_op = static_cast<double>(bytes.size()) / graph.roles[0].program.size();
  RecordProperty("bytes_per_op", fmt::format("{:.2f}", bytes_per_op));
  EXPECT_LT(bytes_per_op, 5.0);
}

TEST(GraphFile, keeps_every_field_of_a_job) {
  Graph graph = SmallGraph();
  for (const testing::ChangedJob& changed : testing::ChangedJobs()) {
    graph.job = changed.job;
    const Result<Graph> decoded = DecodeGraph(EncodeGraph(graph), "memory");
    ASSERT_TRUE(decoded.ok()) << changed.field;
    EXPECT_TRUE(decoded->job == changed.job) << changed.field;
  }
}

TEST(GraphFile, writes_and_reads_files) {
  const ScratchFolder folder;
  const std::string path = folder / "a.prism";
  const Graph graph = SmallGraph();
  ASSERT_TRUE(WriteGraph(graph, path).ok());
  EXPECT_EQ(*ReadFile(path), EncodeGraph(graph));
  EXPECT_EQ(*ReadGraph(path), graph);
  std::filesystem::remove(path);
  EXPECT_EQ(ReadGraph(path).status().code(), StatusCode::kBadFile);
  EXPECT_EQ(WriteGraph(graph, "/nonexistent/a.prism").code(), StatusCode::kEnvironment);
}

}  // namespace
}  // namespace prism::graph
