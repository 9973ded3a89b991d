// Lowered ranks → one graph. Ranks with equal programs share a role; beyond its role, only what its
// slots refer to is kept of a rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "slicer/tasks/lower.h"

namespace prism::slicer {

class GraphAssembly {
 public:
  // 1 <= ranks <= 2^20.
  explicit GraphAssembly(uint32_t ranks);

  [[nodiscard]] LowerNames lower_names() const { return {iteration_marker_}; }
  [[nodiscard]] uint32_t rank_count() const { return static_cast<uint32_t>(ranks_.size()); }

  // String id, for Task::place.
  uint32_t MarkerName(std::string_view name) { return InternString(name); }

  // Signature id of a kernel of that name, for Task::name; of one that computes a product, with it;
  // of one that an op of a framework launches, with that.
  uint32_t KernelName(std::string_view name,
                      const graph::MatmulShape& product = {},
                      std::string_view framework_op = "");

  // Id of the communicator of that name, for Task::comm. Its members are the ranks that use it.
  uint32_t Communicator(std::string_view name);

  // One communicator for each distinct `key` and members (ascending global ranks), of any name.
  uint32_t Communicator(std::string_view name,
                        std::string_view key,
                        const std::vector<uint32_t>& members);

  [[nodiscard]] bool Has(Rank rank) const { return ranks_[rank.value()].program != kNoProgram; }

  // Each rank once.
  void AddRank(Rank rank, LoweredRank lowered);

  // Adds a rank with the program and peers of a rank added before, and its own communicators.
  void AddRankLike(Rank rank, Rank other, std::vector<uint32_t> comms);

  // Degrees of parallelism, where known; else the job is one of data-parallel ranks.
  void SetParallel(const graph::ParallelSizes& parallel) { parallel_ = parallel; }

  // Every rank must have been added. Empties the assembly.
  graph::Graph Finish(const std::string& job_name, graph::ClusterSpec cluster);

 private:
  static constexpr uint32_t kNoProgram = 0xFFFFFFFFU;

  struct RankEntry {
    uint32_t program = kNoProgram;
    std::vector<uint32_t> comms;
    std::vector<uint32_t> peers;
  };

  uint32_t AddCommunicator(const std::string& key,
                           std::string_view name,
                           const std::vector<uint32_t>& members);
  uint32_t InternString(std::string_view text);
  void TakeMembership(Rank rank, const std::vector<uint32_t>& comms);
  uint32_t InternProgram(graph::Program program);
  std::vector<uint32_t> NumberFamilies() const;
  void FillRoles(const std::vector<uint32_t>& family, graph::Graph* graph);

  std::vector<RankEntry> ranks_;
  std::vector<graph::Program> programs_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> programs_by_hash_;
  std::vector<std::string> strings_;
  std::map<std::string, uint32_t, std::less<>> string_ids_;
  std::map<std::string, uint32_t, std::less<>> kernel_ids_;
  std::vector<graph::KernelSignature> signatures_;
  std::vector<std::string> comm_names_;
  std::map<std::string, uint32_t, std::less<>> comm_ids_;
  std::vector<std::vector<uint32_t>> members_;  // by communicator: the users seen so far
  std::vector<bool> members_given_;             // by communicator
  uint32_t iteration_marker_ = 0;
  graph::ParallelSizes parallel_;
};

}  // namespace prism::slicer
