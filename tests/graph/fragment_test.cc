// Fragments on their way between processes, and what makes two of them the same role.
#include "graph/fragment.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "graph/bounded_fragment.h"
#include "graph/proto/chunk_tables.h"
#include "tests/support/random_graph.h"

namespace prism::graph {
namespace {

// What a recorder would have made of one rank of the graph.
Fragment FragmentOf(const Graph& graph, Rank rank) {
  Fragment fragment;
  fragment.rank = rank;
  fragment.strings = graph.strings;
  fragment.signatures = graph.signatures;
  fragment.program = graph.role_of(rank).program;
  fragment.memory = graph.role_of(rank).memory;
  for (const uint32_t comm : graph.ranks.comms(rank)) {
    FragmentCommunicator communicator{.name = graph.strings[graph.communicators.name[comm]],
                                      .members = {},
                                      .backward_sum_bytes = 4096};
    for (const uint32_t member : graph.communicators.members_of(CommId(comm))) {
      communicator.members.emplace_back(member);
    }
    fragment.comm_slots.push_back(std::move(communicator));
  }
  for (const uint32_t peer : graph.ranks.peers(rank)) {
    fragment.peer_slots.emplace_back(peer);
  }
  fragment.warnings = graph.warnings;
  fragment.early_groups = {{{Rank(0), rank}}, {{Rank(3), Rank(1), Rank(2)}, 7}};
  fragment.early_calls = {
      {-1, EarlySort::kCollective, CollectiveKind::kBroadcast, 2, 1, 3},
      {0, EarlySort::kMessage, CollectiveKind::kAllReduce, -1, 0, 1},
  };
  fragment.varies = true;
  fragment.odd_iterations = {3, 5};
  fragment.startup_seconds = 1.5;
  fragment.iteration_seconds = 0.25;
  return fragment;
}

RC_GTEST_PROP(FragmentProperty, parsing_gives_the_serialized_fragment, (uint64_t seed)) {
  const Graph graph = testing::RandomGraph(testing::RandomOptions(seed));
  const Fragment fragment = FragmentOf(graph, Rank(graph.ranks.size() - 1));
  const Result<Fragment> parsed = ParseFragment(SerializeFragment(fragment));
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == fragment);
}

RC_GTEST_PROP(FragmentProperty, ranks_of_a_role_hash_alike, (uint64_t seed)) {
  testing::RandomGraphOptions options = testing::RandomOptions(seed);
  options.copies = 2;
  const Graph graph = testing::RandomGraph(options);
  const auto other = static_cast<uint32_t>(options.base_ranks);
  RC_ASSERT(StructuralHash(FragmentOf(graph, Rank(0))) ==
            StructuralHash(FragmentOf(graph, Rank(other))));
}

class Fragments : public ::testing::Test {
 protected:
  Graph graph_ = testing::RandomGraph({.seed = 3, .base_ranks = 2, .copies = 2, .events = 80});
  Fragment fragment_ = FragmentOf(graph_, Rank(0));
};

TEST_F(Fragments, damage_is_noticed) {
  const std::string bytes = SerializeFragment(fragment_);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    ASSERT_FALSE(ParseFragment(damaged).ok()) << at;
    ASSERT_FALSE(ParseFragment(bytes.substr(0, at)).ok()) << at;
  }
}

// What a few kilobytes can say: millions of empty entries, and tables of any size.
TEST_F(Fragments, memory_is_bounded) {
  const auto of_head = [](std::string_view head) {
    return EncodeChunks({.magic = std::string_view("PRISMFR\n", 8), .version = 1, .name = ""},
                        [&](ChunkWriter* writer) {
                          PRISM_RETURN_IF_ERROR(writer->Write(1, head));
                          return writer->Finish();
                        });
  };
  std::string entries;  // of warnings
  for (int i = 0; i < 2'000'000; ++i) {
    entries += std::string_view("\x52\x00", 2);
  }
  const std::string classes =  // of memory at its peak
      std::string("\x2a") + "\x80\x92\xf4\x01" + [] {
        std::string text;
        for (int i = 0; i < 2'000'000; ++i) {
          text += std::string_view("\x22\x00", 2);
        }
        return text;
      }();
  for (const std::string& head : {entries, classes}) {
    EXPECT_THAT(ParseFragment(of_head(head)).status().message(),
                ::testing::HasSubstr("more than 1048576 entries"));
  }
  size_t most_bytes = size_t{1} << 30U;
  const std::string_view ops("\x22\x06\x08\xff\xff\xff\xff\x0f", 8);
  EXPECT_THAT(ParseFragment(of_head(ops), &most_bytes).status().message(),
              ::testing::HasSubstr("bytes of memory where"));
  most_bytes = size_t{1} << 30U;
  ASSERT_TRUE(ParseFragment(SerializeFragment(fragment_), &most_bytes).ok());
  EXPECT_LT(most_bytes, size_t{1} << 30U);
}

TEST_F(Fragments, hash_sees_the_program_but_not_memory_or_identity) {
  const uint64_t hash = StructuralHash(fragment_);
  Fragment other = fragment_;
  other.rank = Rank(9);
  other.memory.peak_allocated += 512;
  other.comm_slots[0].members[0] = Rank(77);
  EXPECT_EQ(StructuralHash(other), hash);
  other.comm_slots[0].members.emplace_back(99);
  EXPECT_NE(StructuralHash(other), hash);
  other = fragment_;
  uint32_t last = other.program.size() - 1;
  while (other.program.kind[last] == OpKind::kMarker) {
    --last;
  }
  other.program.value.Set(last, other.program.value[last] + 1);
  EXPECT_NE(StructuralHash(other), hash);
}

// Two processes meet the same signatures in different orders and number them differently.
TEST_F(Fragments, hash_does_not_depend_on_numbering) {
  const uint64_t hash = StructuralHash(fragment_);
  Fragment other = fragment_;
  other.strings.insert(other.strings.begin() + 1, "of another process");
  const auto shifted = [](StringId id) { return id.value() == 0 ? id : StringId(id.value() + 1); };
  for (KernelSignature& signature : other.signatures) {
    signature.name = shifted(signature.name);
    signature.framework_op = shifted(signature.framework_op);
  }
  other.signatures.insert(other.signatures.begin(), other.signatures.back());
  for (uint32_t op = 0; op < other.program.size(); ++op) {
    const OpKind kind = other.program.kind[op];
    if (kind == OpKind::kKernel || kind == OpKind::kMarker) {
      ++other.program.signature[op];
    }
  }
  EXPECT_EQ(StructuralHash(other), hash);
  for (std::string& text : other.strings) {
    text += "x";
  }
  EXPECT_NE(StructuralHash(other), hash);
}

// "step 7 of rank 3": programs name ranges after rank or step, and one rank may have a profiler
// that the others lack.
TEST_F(Fragments, hash_does_not_see_ranges) {
  const auto add_range = [](const std::string& name, Fragment* fragment) {
    fragment->strings.push_back(name);
    fragment->program.Append({.kind = OpKind::kMarker,
                              .flags = kMarkerBegin,
                              .signature = static_cast<uint32_t>(fragment->strings.size() - 1)});
  };
  const auto hash_with = [&](const std::string& range) {
    Fragment named = fragment_;
    if (!range.empty()) {
      add_range(range, &named);
    }
    named.program.Append({.kind = OpKind::kEventRecord});
    const auto record = static_cast<uint32_t>(named.program.size() - 1);
    named.program.Append({.kind = OpKind::kEventWait, .dep = record});
    return StructuralHash(named);
  };
  EXPECT_EQ(hash_with("step 7 of rank 3"), hash_with("step 9 of rank 0"));
  EXPECT_EQ(hash_with("step 7 of rank 3"), hash_with(""));
}

}  // namespace
}  // namespace prism::graph
