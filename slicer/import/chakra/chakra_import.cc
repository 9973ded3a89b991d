#include "slicer/import/chakra/chakra_import.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/hash.h"
#include "graph/program/collective_kinds.h"
#include "slicer/import/chakra/process_groups.h"
#include "slicer/import/chakra/trace_file.h"
#include "slicer/import/chakra/trace_names.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;
using graph::ReduceOp;

constexpr int64_t kMaxTaskBytes = int64_t{1} << 50U;
constexpr uint64_t kMaxMicros = 1'000'000'000'000;  // 11 days
constexpr size_t kMaxResources = 60'000;
constexpr int64_t kBarrierBytes = 4;

// Keys of resources other than streams, whose keys are not negative.
constexpr int64_t kCpu = -1;
constexpr int64_t kGpu = -2;
constexpr int64_t kNetwork = -3;

// What all traces of one import share.
struct Shared {
  GraphAssembly* assembly = nullptr;
  ProcessGroups groups;  // of the groups file
  ChakraRoofline roofline;
  std::vector<int64_t> dims;  // of the network
  std::vector<uint32_t> all;  // ranks
  std::string undescribed;    // the first process group that no file describes
};

// One rank's trace → its tasks.
class TraceReader {
 public:
  TraceReader(Shared* shared, Rank rank, const std::string& file)
      : shared_(*shared), file_(file), groups_(shared->groups) {
    tasks_.rank = rank;
  }

  Status Read(std::string_view bytes) {
    PRISM_RETURN_IF_ERROR(
        ReadChakraTrace(bytes, file_, [this](const ChakraNode& node) { return Take(node); }));
    if (!entries_.empty() && typed_ == 0) {
      return BadFile(fmt::format(
          "{}: none of its {} nodes has a type of Chakra's; an execution trace of PyTorch goes "
          "with its profile: prism import kineto",
          file_, entries_.size()));
    }
    return Connect();
  }

  void Apply(const ImportPolicy& policy) { ApplyPolicy(policy, &tasks_, &notes_); }

  [[nodiscard]] const TaskGraph& tasks() const { return tasks_; }
  [[nodiscard]] const Notes& notes() const { return notes_; }
  // Whether the same file means the same on any other rank.
  [[nodiscard]] bool same_everywhere() const { return same_everywhere_; }

 private:
  struct Entry {
    uint64_t id = 0;
    Task task;
    std::vector<uint64_t> deps;
  };

  Status Take(const ChakraNode& node) {
    Entry entry;
    entry.id = node.id;
    entry.deps = node.data_deps;
    // Messages about tasks name the node.
    entry.task.line =
        static_cast<uint32_t>(std::min<uint64_t>(node.id, std::numeric_limits<uint32_t>::max()));
    notes_.Add("control dependencies are left out, as in ASTRA-sim",
               static_cast<int64_t>(node.control_deps.size()));
    typed_ += node.type == ChakraType::kInvalid ? 0 : 1;
    switch (node.type) {
      case ChakraType::kCompute:
        PRISM_RETURN_IF_ERROR(TakeCompute(node, &entry.task));
        break;
      case ChakraType::kSend:
      case ChakraType::kReceive:
        PRISM_RETURN_IF_ERROR(TakeMessage(node, &entry.task));
        break;
      case ChakraType::kCollective:
        PRISM_RETURN_IF_ERROR(TakeCollective(node, &entry.task));
        break;
      case ChakraType::kMetadata:
        PRISM_RETURN_IF_ERROR(TakeMetadata(node, &entry.task));
        break;
      case ChakraType::kMemoryLoad:
      case ChakraType::kMemoryStore:
      case ChakraType::kInvalid:
        notes_.Add("nodes of remote memory or of no known type take no time");
        entry.task.name = shared_.assembly->KernelName(node.name);
        break;
    }
    entries_.push_back(std::move(entry));
    return OkStatus();
  }

  Status TakeCompute(const ChakraNode& node, Task* task) {
    if (node.duration_us > kMaxMicros || node.duration_ns.value_or(0) < 0 ||
        node.duration_ns.value_or(0) > static_cast<int64_t>(kMaxMicros * 1000)) {
      return Wrong(node, "its duration is longer than 11 days or negative");
    }
    task->name = shared_.assembly->KernelName(node.name, {},
                                              node.on_cpu ? kChakraCpuOp : std::string_view());
    task->value = node.duration_ns.value_or(static_cast<int64_t>(node.duration_us * 1000));
    const bool has_none = node.duration_us == 0 && !node.duration_ns;
    const bool has_work = !node.on_cpu && node.operations != 0 && shared_.roofline.flops_per_s > 0;
    if (has_work && (has_none || shared_.roofline.of_all)) {
      PRISM_RETURN_IF_ERROR(TakeWork(node, task));
    } else {
      notes_.Add("compute nodes without a duration take no time", has_none ? 1 : 0);
    }
    notes_.Add("nodes of a CPU run on a stream of their own and count as compute",
               node.on_cpu ? 1 : 0);
    return SetResource(node, node.on_cpu ? kCpu : node.stream.value_or(kGpu), task);
  }

  // Whole nanoseconds, as ASTRA-sim rounds them.
  Status TakeWork(const ChakraNode& node, Task* task) {
    const ChakraRoofline& roofline = shared_.roofline;
    const double by_memory = roofline.bytes_per_s * (node.operations / node.tensor_bytes);
    const double rate = std::min(by_memory, roofline.flops_per_s);
    const double ns = node.operations / rate * 1e9;
    if (!(node.operations > 0) || !(node.tensor_bytes >= 0) ||
        !(ns <= static_cast<double>(kMaxMicros * 1000))) {
      return Wrong(node, fmt::format("its num_ops is {} and its tensor_size {}", node.operations,
                                     node.tensor_bytes));
    }
    if (node.tensor_bytes == 0 && roofline.of_all) {
      notes_.Add("compute nodes with num_ops, but no tensor_size, take no time, as in ASTRA-sim");
      task->value = 0;
      return OkStatus();
    }
    task->value = std::max(static_cast<DurationNs>(ns), roofline.shortest_ns);
    notes_.Add(roofline.source);
    return OkStatus();
  }

  Status TakeMessage(const ChakraNode& node, Task* task) {
    const bool is_send = node.type == ChakraType::kSend;
    const std::optional<int64_t> own = is_send ? node.source : node.destination;
    const std::optional<int64_t> other = is_send ? node.destination : node.source;
    if (own.has_value() && *own != tasks_.rank.value()) {
      return Wrong(node, fmt::format("it says that this is the trace of rank {}", *own));
    }
    if (!other.has_value() || *other < 0 || *other >= static_cast<int64_t>(shared_.all.size())) {
      return Wrong(node, fmt::format("its {} is not one of the {} ranks",
                                     is_send ? "comm_dst" : "comm_src", shared_.all.size()));
    }
    int64_t bytes = 0;
    PRISM_RETURN_IF_ERROR(ReadBytes(node, kMaxTaskBytes, &bytes));
    same_everywhere_ = false;
    task->kind = is_send ? TaskKind::kSend : TaskKind::kReceive;
    task->comm = shared_.assembly->Communicator(fmt::format("tag {}", node.tag));
    task->peer = static_cast<uint32_t>(*other);
    task->value = bytes;
    return OkStatus();
  }

  [[nodiscard]] Status ReadBytes(const ChakraNode& node, int64_t most, int64_t* bytes) const {
    if (!node.bytes) {
      return Wrong(node, "its comm_size is missing or not a whole number");
    }
    if (*node.bytes < 0 || *node.bytes > most) {
      return Wrong(node, fmt::format("its comm_size is {}", *node.bytes));
    }
    *bytes = *node.bytes;
    return OkStatus();
  }

  Status TakeCollective(const ChakraNode& node, Task* task) {
    if (node.on_cpu && !node.bytes) {
      notes_.Add("nodes of a CPU that wrap a collective (they have no comm_size) are host work");
      task->kind = TaskKind::kCompute;
      return TakeCompute(node, task);
    }
    if (node.collective < 0 || node.collective >= static_cast<int64_t>(std::size(kChakraKinds))) {
      return Wrong(node, fmt::format("its comm_type is {}", node.collective));
    }
    std::vector<uint32_t> members;
    PRISM_RETURN_IF_ERROR(FindGroup(node, &members));
    const auto size = static_cast<int64_t>(members.size());
    graph::CollectiveShape shape;
    shape.kind = kChakraKinds[node.collective];
    if (node.collective == static_cast<int64_t>(ChakraCollective::kBarrier)) {
      shape.bytes = kBarrierBytes;
      notes_.Add("barriers are all_reduces of four bytes");
    } else {
      PRISM_RETURN_IF_ERROR(ReadBytes(node, kMaxTaskBytes / size, &shape.bytes));
      shape.bytes *= shape.kind == CollectiveKind::kAllGather ? size : 1;
    }
    PRISM_RETURN_IF_ERROR(SetDetails(node, size, &shape));
    const std::string name = !node.group_label.empty() ? node.group_label
                             : node.group.empty()      ? "all"
                                                       : "pg " + node.group;
    task->kind = TaskKind::kCollective;
    task->comm = shared_.assembly->Communicator(name, node.group, members);
    task->shape = graph::IndexOfShape(shape, &tasks_.collectives);
    return SetResource(node, node.stream.value_or(kNetwork), task);
  }

  // Element type, reduction and root, which only our own traces contain.
  Status SetDetails(const ChakraNode& node, int64_t size, graph::CollectiveShape* shape) {
    if (node.dtype < 0 || node.dtype > static_cast<int64_t>(DataType::kFloat64) ||
        node.reduce < 0 || node.reduce > static_cast<int64_t>(ReduceOp::kAvg) || node.root < -1 ||
        node.root >= size) {
      return Wrong(node, "its dtype, reduce_op or root is out of range");
    }
    shape->dtype = static_cast<DataType>(node.dtype);
    shape->reduce = static_cast<ReduceOp>(node.reduce);
    shape->root = static_cast<int32_t>(node.root);
    if (shape->reduce == ReduceOp::kNone && graph::Reduces(shape->kind)) {
      shape->reduce = ReduceOp::kSum;
    }
    if (shape->root < 0 && graph::HasRoot(shape->kind)) {
      notes_.Add("collectives that do not name their root have the first rank as root");
      shape->root = 0;
    }
    return OkStatus();
  }

  Status FindGroup(const ChakraNode& node, std::vector<uint32_t>* members) {
    const bool partial = std::ranges::find(node.involved_dims, false) != node.involved_dims.end();
    const auto named = groups_.find(node.group);
    if (named != groups_.end()) {
      *members = named->second;
    } else if (!node.group.empty() && !groups_.empty()) {
      return Wrong(node, fmt::format("its process group '{}' is unknown", node.group));
    } else if (partial && shared_.dims.empty()) {
      return Wrong(
          node,
          "it involves only some dimensions of the network; name the network with --network FILE");
    } else if (partial) {
      *members = GroupAlong(tasks_.rank.value(), shared_.dims, node.involved_dims);
    } else {
      *members = shared_.all;
      notes_.Add("collectives of a process group that no file describes have all ranks",
                 node.group.empty() ? 0 : 1);
      shared_.undescribed = shared_.undescribed.empty() ? node.group : shared_.undescribed;
    }
    if (!std::ranges::binary_search(*members, tasks_.rank.value())) {
      return Wrong(node, fmt::format("rank {} is not in its process group '{}'",
                                     tasks_.rank.value(), node.group));
    }
    same_everywhere_ = same_everywhere_ && members->size() == shared_.all.size();
    return OkStatus();
  }

  Status TakeMetadata(const ChakraNode& node, Task* task) {
    task->name = shared_.assembly->KernelName(node.name);
    if (node.name.find("process_group") == std::string::npos || node.input_values.empty()) {
      return OkStatus();
    }
    return ReadGroupNode(node.input_values, file_, static_cast<uint32_t>(shared_.all.size()),
                         &groups_);
  }

  Status SetResource(const ChakraNode& node, int64_t key, Task* task) {
    const auto [found, inserted] =
        resources_.try_emplace(key, static_cast<uint16_t>(resources_.size()));
    if (resources_.size() > kMaxResources) {
      return Wrong(node, fmt::format("it is on a stream beyond the possible {}", kMaxResources));
    }
    task->resource = found->second;
    return OkStatus();
  }

  // By ascending id, dependencies as edges.
  Status Connect() {
    std::ranges::stable_sort(entries_, {}, &Entry::id);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (i > 0 && entries_[i].id == entries_[i - 1].id) {
        return BadFile(fmt::format("{}: two nodes have the id {}", file_, entries_[i].id));
      }
      tasks_.tasks.push_back(entries_[i].task);
    }
    for (uint32_t task = 0; task < entries_.size(); ++task) {
      for (const uint64_t dep : entries_[task].deps) {
        const auto on = std::ranges::lower_bound(entries_, dep, {}, &Entry::id);
        if (on == entries_.end() || on->id != dep) {
          return BadFile(
              fmt::format("{}: node {} waits for node {}, which is not in the file; is it cut off?",
                          file_, entries_[task].id, dep));
        }
        tasks_.edges.push_back({task, static_cast<uint32_t>(on - entries_.begin()), false});
      }
    }
    return OkStatus();
  }

  [[nodiscard]] Status Wrong(const ChakraNode& node, const std::string& what) const {
    return BadFile(fmt::format("{}: node {} ('{}'): {}", file_, node.id, node.name, what));
  }

  Shared& shared_;
  const std::string& file_;
  ProcessGroups groups_;
  std::vector<Entry> entries_;
  std::map<int64_t, uint16_t> resources_;  // by key
  TaskGraph tasks_;
  Notes notes_;
  bool same_everywhere_ = true;
  size_t typed_ = 0;  // nodes of a known type
};

// Imports all traces with one policy.
class ChakraImport {
 public:
  ChakraImport(const std::vector<TraceSource>& traces, uint32_t ranks, const ImportPolicy& policy)
      : traces_(traces), policy_(policy), assembly_(ranks), lowering_(assembly_.lower_names()) {
    shared_.assembly = &assembly_;
    shared_.all.resize(ranks);
    std::iota(shared_.all.begin(), shared_.all.end(), 0U);
  }

  Status Read(const ChakraOptions& chakra) {
    shared_.dims = chakra.dims;
    shared_.roofline = chakra.roofline;
    if (!chakra.groups_file.empty()) {
      PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(chakra.groups_file));
      PRISM_RETURN_IF_ERROR(
          ReadGroupFile(text, chakra.groups_file, assembly_.rank_count(), &shared_.groups));
    }
    for (uint32_t rank = 0; rank < assembly_.rank_count(); ++rank) {
      PRISM_RETURN_IF_ERROR(ReadRank(Rank(rank), traces_[traces_.size() == 1 ? 0 : rank]));
    }
    return OkStatus();
  }

  ImportAttempt Finish(const ImportOptions& options) {
    result_.notes.Add("nodes that only their stream orders run in the order of their ids",
                      unordered_);
    ImportAttempt attempt =
        FinishImport(std::move(assembly_), options, std::move(result_), traces_.front().name);
    if (!attempt.result.ok() && !shared_.undescribed.empty()) {
      attempt.result = BadFile(
          fmt::format("{}: pg_name {} is described by no file: --groups FILE names its ranks",
                      traces_.front().name, shared_.undescribed));
    }
    return attempt;
  }

 private:
  struct Known {
    LoweredRank lowered;
    int64_t tasks = 0;
    Notes notes;
  };

  // Traces of data-parallel ranks are often equal, byte by byte.
  Status ReadRank(Rank rank, const TraceSource& trace) {
    const uint64_t hash = Hash64(trace.bytes);
    auto known = known_.find(hash);
    result_.bytes_read += static_cast<int64_t>(trace.bytes.size());
    if (known == known_.end()) {
      TraceReader reader(&shared_, rank, trace.name);
      PRISM_RETURN_IF_ERROR(reader.Read(trace.bytes));
      reader.Apply(policy_);
      Result<LoweredRank> lowered = lowering_.Lower(reader.tasks());
      if (!lowered.ok()) {
        return BadFile(fmt::format("{}: node {}", trace.name, lowered.status().message()));
      }
      Known entry = {*std::move(lowered), static_cast<int64_t>(reader.tasks().tasks.size()),
                     reader.notes()};
      if (!reader.same_everywhere()) {
        if (traces_.size() < assembly_.rank_count()) {
          return BadFile(fmt::format(
              "{}: has messages or process groups, so its ranks differ; name one file per rank",
              trace.name));
        }
        Count(entry);
        assembly_.AddRank(rank, std::move(entry.lowered));
        return OkStatus();
      }
      known = known_.emplace(hash, std::move(entry)).first;
    }
    Count(known->second);
    assembly_.AddRank(rank, known->second.lowered);
    return OkStatus();
  }

  void Count(const Known& known) {
    result_.tasks += known.tasks;
    unordered_ += known.lowered.unordered;
    result_.notes.Add(known.notes);
  }

  const std::vector<TraceSource>& traces_;
  ImportPolicy policy_;
  GraphAssembly assembly_;
  TaskLowering lowering_;
  Shared shared_;
  ImportResult result_;
  std::unordered_map<uint64_t, Known> known_;  // by hash of the bytes
  int64_t unordered_ = 0;
};

constexpr size_t kMaxTraceBytes = size_t{1} << 32U;  // of one that was packed

}  // namespace

Result<ImportResult> ImportChakraBytes(const std::vector<TraceSource>& traces,
                                       const ImportOptions& options,
                                       const ChakraOptions& chakra) {
  uint32_t ranks = static_cast<uint32_t>(traces.size());
  if (options.target_gpus > 0 && static_cast<size_t>(options.target_gpus) != traces.size()) {
    if (traces.size() != 1) {
      return InvalidArgument(
          fmt::format("{} traces cannot be extended to {} ranks; name one, or one per rank",
                      traces.size(), options.target_gpus));
    }
    ranks = static_cast<uint32_t>(options.target_gpus);
  }
  const int64_t places = std::accumulate(chakra.dims.begin(), chakra.dims.end(), int64_t{1},
                                         [](int64_t a, int64_t b) { return a * b; });
  if (!chakra.dims.empty() && places != ranks) {
    return InvalidArgument(
        fmt::format("the network has {} places, but the traces have {} ranks", places, ranks));
  }
  return ImportByPolicy([&](const ImportPolicy& policy) -> ImportAttempt {
    ChakraImport import(traces, ranks, policy);
    const Status read = import.Read(chakra);
    return read.ok() ? import.Finish(options) : ImportAttempt{read};
  });
}

Result<ImportResult> ImportChakra(const std::vector<std::string>& files,
                                  const ImportOptions& options,
                                  const ChakraOptions& chakra) {
  std::vector<std::string> ordered = files;
  if (files.size() > 1) {
    PRISM_RETURN_IF_ERROR(SortByRank(&ordered));
  }
  PRISM_ASSIGN_OR_RETURN(const SourceFiles opened, SourceFiles::Open(ordered, kMaxTraceBytes));
  return ImportChakraBytes(opened.sources(), options, chakra);
}

}  // namespace prism::slicer
