#include "slicer/tasks/assembly.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/hash.h"

namespace prism::slicer {
namespace {

template <typename T>
std::string_view BytesOf(const std::vector<T>& column) {
  return {reinterpret_cast<const char*>(column.data()), column.size() * sizeof(T)};
}

uint64_t ProgramHash(const graph::Program& program) {
  Hasher hasher;
  hasher.AddString(BytesOf(program.kind));
  hasher.AddString(BytesOf(program.flags));
  hasher.AddString(BytesOf(program.stream));
  hasher.AddString(BytesOf(program.signature));
  for (uint32_t op = 0; op < program.size(); ++op) {
    hasher.Add(program.comm_slot[op]);
    hasher.Add(program.dep[op]);
    hasher.Add(program.value[op]);
  }
  for (const graph::PeerGroup& group : program.peer_groups) {
    hasher.Add(group.transfers.front().bytes);
    hasher.Add(group.transfers.front().peer_slot);
  }
  return hasher.Digest();
}

uint32_t InternName(std::string_view name,
                    std::vector<std::string>* names,
                    std::map<std::string, uint32_t, std::less<>>* ids) {
  const auto found = ids->find(name);
  if (found != ids->end()) {
    return found->second;
  }
  names->emplace_back(name);
  const auto id = static_cast<uint32_t>(names->size() - 1);
  ids->emplace(name, id);
  return id;
}

}  // namespace

GraphAssembly::GraphAssembly(uint32_t ranks) : ranks_(ranks) {
  parallel_.dp = static_cast<int32_t>(ranks);
  InternString("");
  iteration_marker_ = InternString("iteration");
}

uint32_t GraphAssembly::InternString(std::string_view text) {
  return InternName(text, &strings_, &string_ids_);
}

uint32_t GraphAssembly::KernelName(std::string_view name,
                                   const graph::MatmulShape& product,
                                   std::string_view framework_op) {
  std::string key(name);
  if (!framework_op.empty()) {
    key += fmt::format("\n{}", framework_op);
  }
  if (product.m > 0) {
    key += fmt::format("\n{} {} {} {} {}", product.m, product.n, product.k, product.batch,
                       static_cast<int>(product.input));
  }
  const auto [known, is_new] =
      kernel_ids_.try_emplace(std::move(key), static_cast<uint32_t>(signatures_.size()));
  if (is_new) {
    graph::KernelSignature signature;
    signature.name = StringId(InternString(name));
    signature.framework_op = StringId(InternString(framework_op));
    signature.matmul = product;
    signatures_.push_back(std::move(signature));
  }
  return known->second;
}

uint32_t GraphAssembly::Communicator(std::string_view name) {
  return AddCommunicator(std::string(name), name, {});
}

uint32_t GraphAssembly::Communicator(std::string_view name,
                                     std::string_view key,
                                     const std::vector<uint32_t>& members) {
  return AddCommunicator(fmt::format("{}\n{}\n{}", name, key, BytesOf(members)), name, members);
}

uint32_t GraphAssembly::AddCommunicator(const std::string& key,
                                        std::string_view name,
                                        const std::vector<uint32_t>& members) {
  const auto [found, inserted] =
      comm_ids_.try_emplace(key, static_cast<uint32_t>(comm_names_.size()));
  if (inserted) {
    comm_names_.emplace_back(name);
    members_.push_back(members);
    members_given_.push_back(!members.empty());
  }
  return found->second;
}

uint32_t GraphAssembly::InternProgram(graph::Program program) {
  std::vector<uint32_t>& alike = programs_by_hash_[ProgramHash(program)];
  for (const uint32_t candidate : alike) {
    if (programs_[candidate] == program) {
      return candidate;
    }
  }
  alike.push_back(static_cast<uint32_t>(programs_.size()));
  programs_.push_back(std::move(program));
  return alike.back();
}

void GraphAssembly::TakeMembership(Rank rank, const std::vector<uint32_t>& comms) {
  for (const uint32_t comm : comms) {
    if (!members_given_[comm]) {
      members_[comm].push_back(rank.value());
    }
  }
}

void GraphAssembly::AddRankLike(Rank rank, Rank other, std::vector<uint32_t> comms) {
  RankEntry& entry = ranks_[rank.value()];
  PRISM_CHECK_EQ(entry.program, kNoProgram);
  TakeMembership(rank, comms);
  entry.program = ranks_[other.value()].program;
  entry.peers = ranks_[other.value()].peers;
  entry.comms = std::move(comms);
}

void GraphAssembly::AddRank(Rank rank, LoweredRank lowered) {
  RankEntry& entry = ranks_[rank.value()];
  PRISM_CHECK_EQ(entry.program, kNoProgram);
  TakeMembership(rank, lowered.comms);
  entry.program = InternProgram(std::move(lowered.program));
  entry.comms = std::move(lowered.comms);
  entry.peers = std::move(lowered.peers);
}

// Communicators in one slot of a role must not overlap (graph/validate/validate_matching.cc): each
// gets the first family that has none of its members yet.
std::vector<uint32_t> GraphAssembly::NumberFamilies() const {
  std::vector<uint32_t> family_of(members_.size());
  std::vector<std::vector<bool>> taken;  // by family, by rank
  for (size_t comm = 0; comm < members_.size(); ++comm) {
    size_t family = 0;
    while (
        family < taken.size() &&
        std::ranges::any_of(members_[comm], [&](uint32_t rank) { return taken[family][rank]; })) {
      ++family;
    }
    if (family == taken.size()) {
      taken.emplace_back(ranks_.size());
    }
    for (const uint32_t rank : members_[comm]) {
      taken[family][rank] = true;
    }
    family_of[comm] = static_cast<uint32_t>(family);
  }
  return family_of;
}

void GraphAssembly::FillRoles(const std::vector<uint32_t>& family, graph::Graph* graph) {
  std::map<std::vector<uint32_t>, uint32_t> role_ids;  // program and the families of its slots
  graph->ranks.comm_begin = {0};
  graph->ranks.peer_begin = {0};
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankEntry& entry = ranks_[rank];
    PRISM_CHECK_NE(entry.program, kNoProgram);
    std::vector<uint32_t> key = {entry.program};
    for (const uint32_t comm : entry.comms) {
      key.push_back(family[comm]);
    }
    const auto [found, inserted] =
        role_ids.try_emplace(std::move(key), static_cast<uint32_t>(graph->roles.size()));
    if (inserted) {
      graph::Role role;
      role.name = fmt::format("program {}", graph->roles.size());
      role.representative = Rank(rank);
      role.program = programs_[entry.program];
      graph->roles.push_back(std::move(role));
    }
    graph->ranks.role.push_back(found->second);
    graph->ranks.comm_ids.insert(graph->ranks.comm_ids.end(), entry.comms.begin(),
                                 entry.comms.end());
    graph->ranks.comm_begin.push_back(static_cast<uint32_t>(graph->ranks.comm_ids.size()));
    graph->ranks.peer_ids.insert(graph->ranks.peer_ids.end(), entry.peers.begin(),
                                 entry.peers.end());
    graph->ranks.peer_begin.push_back(static_cast<uint32_t>(graph->ranks.peer_ids.size()));
  }
}

graph::Graph GraphAssembly::Finish(const std::string& job_name, graph::ClusterSpec cluster) {
  for (std::vector<uint32_t>& members : members_) {
    std::ranges::sort(members);
  }
  graph::Graph graph;
  FillRoles(NumberFamilies(), &graph);
  for (size_t comm = 0; comm < members_.size(); ++comm) {
    graph.communicators.members.insert(graph.communicators.members.end(), members_[comm].begin(),
                                       members_[comm].end());
    graph.communicators.begin.push_back(static_cast<uint32_t>(graph.communicators.members.size()));
    graph.communicators.name.push_back(InternString(comm_names_[comm]));
  }
  graph.ranks.source.assign(ranks_.size(), graph::RankSource::kRecorded);
  graph.job.name = job_name;
  graph.job.user_program = true;
  graph.job.parallel = parallel_;
  graph.job.global_batch_size = graph.job.parallel.dp;
  graph.cluster = std::move(cluster);
  graph.strings = std::move(strings_);
  graph.signatures = std::move(signatures_);
  return graph;
}

}  // namespace prism::slicer
