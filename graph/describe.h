// An op in words, for messages: "all_reduce (sum) of 4096 bytes bfloat16 on communicator tp of
// ranks 0-7 on stream 2". Ops with different descriptions differ. Ops that differ have different
// descriptions, except where long member lists or template arguments of kernels are shortened.
#pragma once

#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "graph/graph.h"

namespace prism::graph {

const char* OpKindName(OpKind kind);            // "kernel", "memcpy", ..., snake_case
const char* RankSourceName(RankSource source);  // "sandbox", "recorded", "role", "like"

// What the ids of an op refer to, and the names of the slots of its rank: "communicator tp of ranks
// 0-7", "rank 5". What is out of range is shown as a number.
struct OpNames {
  std::span<const std::string> strings;
  std::span<const KernelSignature> signatures;
  std::span<const CollectiveShape> collectives;
  std::span<const PeerGroup> peer_groups;
  std::function<std::string(uint16_t slot)> communicator;
  std::function<std::string(uint16_t slot)> peer;
};

std::string DescribeOp(const OpRow& op, const OpNames& names);

// One op of a program as a row; `dep` as in the program.
OpRow RowOf(const Program& program, uint32_t op);

// An op of a program without a rank: communicators and peers appear as slots. The program need not
// be valid.
std::string DescribeOp(const Program& program,
                       uint32_t op,
                       const std::vector<std::string>& strings,
                       const std::vector<KernelSignature>& signatures);

// An op of a rank: communicators by name and members (with a number where several have the same),
// peers by rank. The rank table must be in range (validate.h).
std::string DescribeOp(const Graph& graph, Rank rank, uint32_t op);

// A framework op with its tensor arguments: "aten::mm [4096,12288] bfloat16, [12288,1536]
// bfloat16".
std::string DescribeFrameworkOp(std::string_view op, std::span<const TensorShape> inputs);

// Text that is equal if and only if the signatures are, however their string tables are numbered.
std::string SignatureKey(const KernelSignature& signature, const std::vector<std::string>& strings);

// "rank 5 op 17: <what it does>".
std::string DescribeRankOp(const Graph& graph, Rank rank, uint32_t op);

// A description without the template arguments of kernels, which would fill lines: "reduce<...>".
// Only for messages, since two kernels may differ in just these.
std::string WithoutTemplates(std::string_view description);

// "tp 8 × pp 16 × dp 64, vpp 1"; context and expert parallelism only if used: "tp 1 × cp 4 × pp 1 ×
// dp 16 (ep 8), vpp 1".
std::string LayoutText(const ParallelSizes& sizes);

// Context parallelism as a factor of a layout, after tp: " × cp 2", nothing for 1.
std::string ContextText(int32_t cp);

// Whether the model chunks of a stage are known: nothing that a user's program does reveals them.
bool KnowsChunks(const JobSpec& job);

// LayoutText of the job's sizes, without vpp if that is not known.
std::string LayoutText(const JobSpec& job);

// The unit behind a parameter's value: " us"; "" for a count, whose unit "1" would read as one more
// number.
std::string UnitText(const Parameter& parameter);

// Ascending members shortened to what a line can hold: "0-7", "0, 8, 16, ... 56"; "none" if there
// are none.
std::string MembersText(std::span<const uint32_t> members);

// Ranks in any order: "ranks 0-7", "rank 3".
std::string RanksText(std::span<const Rank> ranks);

// For JSON.
inline auto NumbersOf(std::span<const Rank> ranks) {
  return ranks | std::views::transform(&Rank::value);
}

}  // namespace prism::graph
