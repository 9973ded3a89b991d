#include "slicer/export/chakra/chakra_export.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "graph/base/file.h"
#include "graph/base/json_writer.h"
#include "slicer/import/chakra/trace_file.h"
#include "slicer/import/chakra/trace_names.h"
#include "slicer/tasks/raise.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;

// ASTRA-sim reads tags and ranks as int32.
constexpr int64_t kNsPerMicro = 1000;

int64_t NumberByUse(uint32_t comm, std::map<uint32_t, int64_t>* numbers) {
  return numbers->try_emplace(comm, std::ssize(*numbers)).first->second;
}

// Groups of ASTRA-sim are numbers above 0.
std::string GroupName(int64_t number) {
  return fmt::format("{}", number + 1);
}

class RankWriter {
 public:
  RankWriter(const graph::Graph& graph, Rank rank, ChakraNumbers* comms, Notes* notes)
      : graph_(graph), rank_(rank), comms_(*comms), notes_(notes) {}

  Result<std::string> Run(int64_t* written) {
    PRISM_ASSIGN_OR_RETURN(tasks_, RaiseRank(graph_, rank_, notes_));
    index_.Build(tasks_);
    begin_awaited_.resize(tasks_.tasks.size());
    waits_.resize(tasks_.tasks.size());
    for (const TaskEdge& edge : tasks_.edges) {
      begin_awaited_[edge.on] = begin_awaited_[edge.on] || edge.begun;
    }
    *written += static_cast<int64_t>(tasks_.tasks.size());
    std::string bytes;
    AppendChakraHead(&bytes);
    for (uint32_t task = 0; task < tasks_.tasks.size(); ++task) {
      AppendChakraNode(NodeOf(task), &bytes);
    }
    return bytes;
  }

 private:
  ChakraNode NodeOf(uint32_t index) {
    const Task& task = tasks_.tasks[index];
    ChakraNode node;
    node.id = index;
    AddDependencies(index, &node);
    switch (task.kind) {
      case TaskKind::kCompute:
        FillCompute(task, &node);
        break;
      case TaskKind::kSend:
      case TaskKind::kReceive:
        FillMessage(task, &node);
        break;
      case TaskKind::kCollective:
        FillCollective(task, &node);
        break;
    }
    return node;
  }

  // Beginning after another node's begin means beginning when that node may: after what it waits
  // for.
  void AddDependencies(uint32_t index, ChakraNode* node) {
    std::set<uint64_t> deps;
    int64_t begins = 0;
    for (uint32_t i = index_.begin[index]; i < index_.begin[index + 1]; ++i) {
      const TaskEdge& edge = index_.edges[i];
      if (edge.begun) {
        ++begins;
        deps.insert(waits_[edge.on].begin(), waits_[edge.on].end());
      } else {
        deps.insert(edge.on);
      }
    }
    KeepLatest(&deps);
    notes_->Add("waits for the start of a task become waits for what that task waits for", begins);
    node->data_deps.assign(deps.begin(), deps.end());
    if (begin_awaited_[index]) {
      waits_[index] = node->data_deps;
    }
  }

  // Of serial tasks of one stream, which end in order, keeps the last.
  void KeepLatest(std::set<uint64_t>* deps) const {
    std::set<uint16_t> seen;
    for (auto dep = deps->end(); dep != deps->begin();) {
      --dep;
      const auto task = static_cast<uint32_t>(*dep);
      if (tasks_.IsSerial(task) && !seen.insert(tasks_.tasks[task].resource).second) {
        dep = deps->erase(dep);
      }
    }
  }

  void FillCompute(const Task& task, ChakraNode* node) {
    node->type = ChakraType::kCompute;
    node->duration_us = static_cast<uint64_t>(DivideUp(task.value, kNsPerMicro));
    node->duration_ns = task.value;
    notes_->Add("durations are whole microseconds for readers that do not know duration_ns",
                task.value % kNsPerMicro != 0 ? 1 : 0);
    const graph::Program& program = graph_.role_of(rank_).program;
    if (task.name == kHostTask || program.kind[task.name] == graph::OpKind::kHostGap) {
      node->name = task.name == kHostTask ? "host wait" : "host gap";
      node->on_cpu = true;
      return;
    }
    if (program.kind[task.name] == graph::OpKind::kKernel) {
      const graph::KernelSignature& kernel = graph_.signatures[program.signature[task.name]];
      node->name = graph_.string(kernel.name);
      node->on_cpu = graph_.string(kernel.framework_op) == kChakraCpuOp;
    } else {
      node->name = program.kind[task.name] == graph::OpKind::kMemcpy ? "memcpy" : "memset";
    }
    if (!node->on_cpu) {
      node->stream = StreamOf(task.resource);
    }
  }

  void FillMessage(const Task& task, ChakraNode* node) {
    const bool is_send = task.kind == TaskKind::kSend;
    node->type = is_send ? ChakraType::kSend : ChakraType::kReceive;
    node->name = is_send ? "send" : "recv";
    node->bytes = task.value;
    node->source = is_send ? rank_.value() : task.peer;
    node->destination = is_send ? task.peer : rank_.value();
    node->tag = NumberByUse(task.comm, &comms_.tags);
  }

  void FillCollective(const Task& task, ChakraNode* node) {
    const graph::CollectiveShape& shape = tasks_.collectives[task.shape];
    const auto members =
        static_cast<int64_t>(graph_.communicators.members_of(CommId(task.comm)).size());
    node->type = ChakraType::kCollective;
    node->name = graph::CollectiveKindName(shape.kind);
    node->collective = std::ranges::find(kChakraKinds, shape.kind) - kChakraKinds;
    node->bytes = shape.bytes;
    if (shape.kind == CollectiveKind::kAllGather) {
      node->bytes = DivideUp(shape.bytes, members);
      notes_->Add("all_gathers whose size is not a multiple of their ranks are rounded up",
                  shape.bytes % members != 0 ? 1 : 0);
    }
    node->group = GroupName(NumberByUse(task.comm, &comms_.groups));
    node->group_label = graph_.strings[graph_.communicators.name[task.comm]];
    node->stream = StreamOf(task.resource);
    node->dtype = static_cast<int64_t>(shape.dtype);
    node->reduce = static_cast<int64_t>(shape.reduce);
    node->root = shape.root;
  }

  // As they are first used, too.
  int64_t StreamOf(uint16_t stream) {
    return streams_.try_emplace(stream, std::ssize(streams_)).first->second;
  }

  const graph::Graph& graph_;
  Rank rank_;
  ChakraNumbers& comms_;
  Notes* notes_;
  std::map<uint16_t, int64_t> streams_;
  TaskGraph tasks_;
  TaskEdgeIndex index_;
  std::vector<bool> begin_awaited_;           // by task
  std::vector<std::vector<uint64_t>> waits_;  // by task whose begin is awaited
};

std::string GroupsJson(const graph::Graph& graph, const ChakraNumbers& comms) {
  std::vector<uint32_t> used(comms.groups.size());
  for (const auto& [comm, number] : comms.groups) {
    used[static_cast<size_t>(number)] = comm;
  }
  std::string text;
  JsonWriter json(&text, JsonWriter::Style::kOneLine);
  json.BeginObject();
  for (size_t number = 0; number < used.size(); ++number) {
    json.ArrayField(GroupName(static_cast<int64_t>(number)),
                    graph.communicators.members_of(CommId(used[number])));
  }
  json.EndObject();
  return text + "\n";
}

// Byte/s of a GPU's messages to others of its node.
double RateInNode(const graph::ParameterTable& table) {
  const double nvlink = table.Value("net.nvlink_bytes_per_s");
  return (nvlink > 0 ? nvlink : table.Value("net.pcie_bytes_per_s")) *
         table.Value("net.nvlink_efficiency");
}

// Byte/s of its share of the node's NICs.
double RateBetweenNodes(const graph::ParameterTable& table, int64_t gpus_per_node) {
  const auto gpus = static_cast<double>(gpus_per_node);
  const double nics = table.Value("net.nics_per_node");
  const double shared = nics < gpus ? table.Value("net.shared_nic_factor") : 1;
  return table.Value("net.nic_bytes_per_s") * table.Value("net.nic_efficiency") * shared * nics /
         gpus;
}

// Leftover files of a larger job would be read as part of this set.
Status RefuseOtherRanks(const std::string& prefix, uint32_t ranks) {
  for (const std::string& file : TracesOf(prefix)) {
    if (*RankOfTrace(file) >= ranks) {
      return InvalidArgument(
          fmt::format("{}: exists already, from a rank that this job of {} does not have; remove "
                      "it, or use another prefix",
                      file, ranks));
    }
  }
  return OkStatus();
}

}  // namespace

AstraNetwork NetworkOf(const graph::ClusterSpec& cluster, uint32_t ranks, Notes* notes) {
  constexpr double kSecondsPerNs = 1e-9;
  const graph::ParameterTable& table = cluster.parameters;
  const int64_t per_node = cluster.gpus_per_node;
  const double base = table.Value("p2p.base_ns") * kSecondsPerNs;
  const double links = RateInNode(table);
  if (ranks <= per_node) {
    return {{"Switch"}, {ranks}, {links}, {base}};
  }
  const double between = RateBetweenNodes(table, per_node);
  const double latency = base + table.Value("net.hop_ns") * kSecondsPerNs;
  if (ranks % per_node != 0) {
    notes->Add("ranks do not fill their nodes: messages inside a node are no faster than others",
               ranks);
    return {{"Switch"}, {ranks}, {std::min(links, between)}, {latency}};
  }
  return {{"Switch", "Switch"}, {per_node, ranks / per_node}, {links, between}, {base, latency}};
}

Result<std::string> ChakraTrace(
    const graph::Graph& graph, Rank rank, ChakraNumbers* numbers, Notes* notes, int64_t* nodes) {
  return RankWriter(graph, rank, numbers, notes).Run(nodes);
}

Result<ExportResult> ExportChakra(const graph::Graph& graph, const std::string& prefix) {
  PRISM_RETURN_IF_ERROR(RefuseOtherRanks(prefix, graph.ranks.size()));
  ExportResult result;
  AtomicFileSet files(prefix);
  const auto write = [&](const std::string& suffix, const std::string& bytes) {
    result.files.push_back(prefix + suffix);
    result.bytes += static_cast<int64_t>(bytes.size());
    return files.Write(suffix, bytes);
  };
  ChakraNumbers comms;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    PRISM_ASSIGN_OR_RETURN(const std::string bytes,
                           ChakraTrace(graph, Rank(rank), &comms, &result.notes, &result.tasks));
    PRISM_RETURN_IF_ERROR(write(fmt::format(".{}.et", rank), bytes));
  }
  PRISM_RETURN_IF_ERROR(write(".groups.json", GroupsJson(graph, comms)));
  const AstraNetwork network = NetworkOf(graph.cluster, graph.ranks.size(), &result.notes);
  PRISM_RETURN_IF_ERROR(write(".network.yml", AstraNetworkText(network)));
  PRISM_RETURN_IF_ERROR(files.Commit());
  result.notes.Add(
      "NCCL's algorithms and protocols are left out: the network has only links and latencies");
  return result;
}

}  // namespace prism::slicer
