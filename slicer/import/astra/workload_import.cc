#include "slicer/import/astra/workload_import.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "graph/program/collective_kinds.h"
#include "graph/validate/limits.h"
#include "slicer/import/astra/workload_file.h"
#include "slicer/import/chakra/process_groups.h"
#include "slicer/import/source_files.h"

namespace prism::slicer {
namespace {

constexpr int64_t kNsPerMicroSecond = 1000;
constexpr int64_t kMaxCompute = 1'000'000'000'000'000;  // ns
constexpr int64_t kMaxBytes = int64_t{1} << 50U;
constexpr uint32_t kNoLayer = std::numeric_limits<uint32_t>::max();

// Resources, each of which runs one task at a time.
constexpr uint16_t kCompute = 0;
constexpr uint16_t kModelNetwork = 1;
constexpr uint16_t kDataNetwork = 2;

constexpr const char* kGroupNames[kLayerGroupCount] = {"model", "data", "expert", "data expert"};

// A grid of ranks, the first dimension the fastest, and the dimensions that each group spans.
struct Groups {
  graph::ParallelSizes parallel;
  std::vector<int64_t> dims;
  std::array<std::vector<bool>, kLayerGroupCount> spans;

  [[nodiscard]] int64_t SizeOf(LayerGroup group) const {
    const std::vector<bool>& span = spans[static_cast<size_t>(group)];
    int64_t size = 1;
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      size *= span[dim] ? dims[dim] : 1;
    }
    return size;
  }
};

// Degrees of parallelism as SimAI states them: tp, then experts, the rest of dp, pp.
Result<Groups> TransformerGroups(const LayerWorkload& workload,
                                 int64_t ranks,
                                 const std::string& file) {
  const int64_t tp = workload.Number("model_parallel_NPU_group", 1);
  const int64_t ep = workload.Number("ep", 1);
  const int64_t pp = workload.Number("pp", 1);
  if (std::min({tp, ep, pp}) < 1) {
    return BadFile(fmt::format(
        "{}:1: model parallel {}, pipeline parallel {} and expert parallel {} are sizes "
        "of groups, from 1",
        file, tp, pp, ep));
  }
  if (tp > graph::kMaxRanks || ep > graph::kMaxRanks || pp > graph::kMaxRanks ||
      ranks % (tp * pp) != 0 || ranks / (tp * pp) % ep != 0) {
    return BadFile(
        fmt::format("{}:1: {} ranks do not divide into model parallel {}, pipeline parallel {} and "
                    "expert parallel {}",
                    file, ranks, tp, pp, ep));
  }
  Groups groups;
  groups.parallel.tp = static_cast<int32_t>(tp);
  groups.parallel.dp = static_cast<int32_t>(ranks / (tp * pp));
  groups.parallel.pp = static_cast<int32_t>(pp);
  groups.parallel.ep = static_cast<int32_t>(ep);
  groups.dims = {tp, ep, ranks / (tp * pp * ep), pp};
  groups.spans = {{{true, false, false, false},
                   {false, true, true, false},
                   {false, true, false, false},
                   {false, false, true, false}}};
  return groups;
}

bool IsHybrid(WorkloadKind kind) {
  return kind == WorkloadKind::kHybridDataModel || kind == WorkloadKind::kHybridModelData;
}

// For the older kinds, groups are dimensions of the network.
Result<Groups> DimensionGroups(const LayerWorkload& workload,
                               int64_t ranks,
                               const std::vector<int64_t>& dims,
                               const std::string& file) {
  const bool hybrid = IsHybrid(workload.kind);
  if (hybrid && dims.size() < 2) {
    return BadFile(
        fmt::format("{}:1: the first dimension of the network decides which ranks are model "
                    "parallel; name a network of two dimensions with --network FILE",
                    file));
  }
  Groups groups;
  groups.parallel.dp = static_cast<int32_t>(ranks);
  groups.dims = dims.empty() ? std::vector<int64_t>{ranks} : dims;
  std::vector<bool> first(groups.dims.size());
  first[0] = true;
  std::vector<bool> others = first;
  others.flip();
  const std::vector<bool> all(groups.dims.size(), true);
  const bool model_first = workload.kind == WorkloadKind::kHybridDataModel;
  groups.spans.fill(all);
  if (hybrid) {
    groups.spans[static_cast<size_t>(LayerGroup::kModel)] = model_first ? first : others;
    groups.spans[static_cast<size_t>(LayerGroup::kData)] = model_first ? others : first;
  }
  return groups;
}

// The tasks of any rank; Task::comm is a LayerGroup.
class LayerTasks {
 public:
  LayerTasks(const LayerWorkload& workload, const Groups& groups, const LayerOptions& layers)
      : workload_(workload),
        groups_(groups),
        dialect_(layers.dialect),
        unit_ns_(layers.unit_ns > 0 ? layers.unit_ns : UnitOf(layers.dialect)),
        last_bottom_(static_cast<size_t>(workload.Number(kLastBottomLayer, 0))) {}

  static int64_t UnitOf(LayerDialect dialect) {
    return dialect == LayerDialect::kAstra ? kNsPerMicroSecond : 1;
  }

  Status Build(GraphAssembly* assembly, const std::string& file) {
    tasks_.rank = Rank(0);
    for (size_t i = 0; i < workload_.layers.size(); ++i) {
      line_ = static_cast<uint32_t>(i + 3);
      PRISM_RETURN_IF_ERROR(Forward(workload_.layers[i], assembly, file));
      if (workload_.kind == WorkloadKind::kDlrm && i == last_bottom_) {
        also_ = std::exchange(embedded_, kNoLayer);
      }
    }
    if (workload_.kind == WorkloadKind::kMicro) {
      return OkStatus();
    }
    for (size_t i = workload_.layers.size(); i > 0; --i) {
      PRISM_RETURN_IF_ERROR(ForwardAgain(i - 1, assembly, file));
      line_ = static_cast<uint32_t>(i + 2);
      if (workload_.kind == WorkloadKind::kDlrm) {
        PRISM_RETURN_IF_ERROR(BackwardDlrm(i - 1, {assembly, file}));
        continue;
      }
      PRISM_RETURN_IF_ERROR(Backward(workload_.layers[i - 1], i == 1, {assembly, file}));
    }
    return OkStatus();
  }

  [[nodiscard]] const TaskGraph& tasks() const { return tasks_; }

 private:
  struct Target {
    GraphAssembly* assembly;
    const std::string& file;
  };

  // The layers from the checkpoint on, before the backward pass of the layer that needs them.
  Status ForwardAgain(size_t layer, GraphAssembly* assembly, const std::string& file) {
    if (!workload_.initiates.contains(static_cast<int64_t>(layer))) {
      return OkStatus();
    }
    const auto after = workload_.checkpoints.upper_bound(static_cast<int64_t>(layer));
    if (after == workload_.checkpoints.begin()) {
      return BadFile(
          fmt::format("{}:1: layer {} runs others again, but no layer before it is "
                      "among the checkpoints",
                      file, layer));
    }
    for (auto again = static_cast<size_t>(*std::prev(after)); again < layer; ++again) {
      line_ = static_cast<uint32_t>(again + 3);
      PRISM_RETURN_IF_ERROR(Forward(workload_.layers[again], assembly, file));
    }
    return OkStatus();
  }

  Status BackwardDlrm(size_t index, const Target& target) {
    const WorkloadLayer& layer = workload_.layers[index];
    PRISM_RETURN_IF_ERROR(Compute(layer, layer.weight_gradient, "weight gradient", target));
    PRISM_RETURN_IF_ERROR(Communicate(layer.weight_gradient, kDataNetwork, target, nullptr));
    if (index == 0) {
      return OkStatus();
    }
    PRISM_RETURN_IF_ERROR(Compute(layer, layer.input_gradient, "input gradient", target));
    return index == last_bottom_ + 1 ? Communicate(workload_.layers.front().input_gradient,
                                                   kModelNetwork, target, nullptr)
                                     : OkStatus();
  }

  Status Forward(const WorkloadLayer& layer, GraphAssembly* assembly, const std::string& file) {
    const Target target = {assembly, file};
    if (workload_.kind == WorkloadKind::kMicro) {
      return Communicate(layer.weight_gradient, kDataNetwork, target, nullptr);
    }
    PRISM_RETURN_IF_ERROR(Compute(layer, layer.forward, "forward", target));
    if (workload_.kind == WorkloadKind::kData) {
      return OkStatus();
    }
    if (workload_.kind == WorkloadKind::kDlrm) {
      return layer.forward.kind == graph::CollectiveKind::kAllToAll
                 ? Communicate(layer.forward, kModelNetwork, target, &embedded_)
                 : OkStatus();
    }
    return Communicate(layer.forward, kModelNetwork, target, &done_);
  }

  Status Backward(const WorkloadLayer& layer, bool is_first, const Target& target) {
    const bool only_data = workload_.kind == WorkloadKind::kData;
    const bool transformer = workload_.kind == WorkloadKind::kTransformer;
    uint32_t exchanged = kNoLayer;
    if (!only_data) {
      PRISM_RETURN_IF_ERROR(Compute(layer, layer.input_gradient, "input gradient", target));
      if (transformer || !is_first) {
        PRISM_RETURN_IF_ERROR(Communicate(layer.input_gradient, kModelNetwork, target, &exchanged));
      }
    }
    if (transformer && exchanged != kNoLayer) {
      done_ = exchanged;
    }
    PRISM_RETURN_IF_ERROR(Compute(layer, layer.weight_gradient, "weight gradient", target));
    if (workload_.kind != WorkloadKind::kModel) {
      PRISM_RETURN_IF_ERROR(Communicate(layer.weight_gradient, kDataNetwork, target, nullptr));
    }
    if (only_data && !is_first) {
      return Compute(layer, layer.input_gradient, "input gradient", target);
    }
    also_ = transformer ? kNoLayer : exchanged;  // the next compute waits for it too
    return OkStatus();
  }

  Status Compute(const WorkloadLayer& layer,
                 const LayerPass& pass,
                 const char* what,
                 const Target& target) {
    if (pass.compute > kMaxCompute / unit_ns_) {
      return BadFile(fmt::format("{}:{}: the compute time {} is out of range", target.file, line_,
                                 pass.compute));
    }
    Task task;
    task.resource = kCompute;
    task.line = line_;
    task.name = target.assembly->KernelName(fmt::format("{} {}", layer.name, what));
    task.value = pass.compute * unit_ns_;
    const uint32_t id = tasks_.Add(task);
    for (const uint32_t before : {done_, also_}) {
      if (before != kNoLayer) {
        tasks_.edges.push_back({id, before, false});
      }
    }
    done_ = id;
    also_ = kNoLayer;
    return OkStatus();
  }

  // Adds the collective after the last compute; `end` is set to it if there is one.
  Status Communicate(const LayerPass& pass, uint16_t network, const Target& target, uint32_t* end) {
    const int64_t size = groups_.SizeOf(pass.group);
    if (!pass.communicates || size == 1) {
      return OkStatus();
    }
    const bool is_part =
        pass.kind == graph::CollectiveKind::kAllGather && dialect_ == LayerDialect::kAstra;
    if (pass.bytes > kMaxBytes / (is_part ? size : 1)) {
      return BadFile(fmt::format("{}:{}: a collective of {} bytes is out of range", target.file,
                                 line_, pass.bytes));
    }
    graph::CollectiveShape shape;
    shape.kind = pass.kind;
    shape.bytes = is_part ? pass.bytes * size : pass.bytes;
    shape.reduce = graph::Reduces(pass.kind) ? graph::ReduceOp::kSum : graph::ReduceOp::kNone;
    shape.root = graph::HasRoot(pass.kind) ? 0 : -1;
    Task task;
    task.kind = TaskKind::kCollective;
    task.resource = network;
    task.line = line_;
    task.comm = static_cast<uint32_t>(pass.group);
    task.shape = graph::IndexOfShape(shape, &tasks_.collectives);
    const uint32_t id = tasks_.Add(task);
    if (done_ != kNoLayer) {
      tasks_.edges.push_back({id, done_, false});
    }
    if (end != nullptr) {
      *end = id;
    }
    return OkStatus();
  }

  const LayerWorkload& workload_;
  const Groups& groups_;
  LayerDialect dialect_;
  int64_t unit_ns_;
  size_t last_bottom_;
  uint32_t embedded_ = kNoLayer;  // the exchange of the embeddings
  TaskGraph tasks_;
  uint32_t line_ = 0;
  uint32_t done_ = kNoLayer;  // the next task waits for it
  uint32_t also_ = kNoLayer;  // likewise
};

Result<int64_t> CountRanks(const LayerWorkload& workload,
                           const ImportOptions& options,
                           const LayerOptions& layers,
                           const std::string& file) {
  const int64_t places =
      std::accumulate(layers.dims.begin(), layers.dims.end(), int64_t{1}, std::multiplies<>());
  int64_t ranks = options.target_gpus;
  if (ranks == 0) {
    ranks = layers.dims.empty() ? workload.Number("all_gpus", 0) : places;
  }
  if (ranks > graph::kMaxRanks) {
    return BadFile(
        fmt::format("{}:1: {} ranks are more than the possible {}", file, ranks, graph::kMaxRanks));
  }
  if (ranks < 1) {
    return BadFile(fmt::format(
        "{}: does not say how many ranks there are; use --target-gpus N or --network FILE", file));
  }
  if (!layers.dims.empty() && places != ranks) {
    return InvalidArgument(fmt::format("the network has {} places, not {}", places, ranks));
  }
  return ranks;
}

// Notes what a pass specifies and LayerTasks leaves out; `exchanges`: the kind has collectives
// there.
void NotePass(const LayerPass& pass,
              bool exchanges,
              const LayerWorkload& workload,
              const Groups& groups,
              Notes* notes) {
  const bool computes = workload.kind != WorkloadKind::kMicro;
  notes->Add("compute times are left out: a MICRO workload has none",
             !computes && pass.compute > 0 ? 1 : 0);
  notes->Add("collectives that the kind of parallelism does not have are left out",
             pass.communicates && !exchanges ? 1 : 0);
  notes->Add("collectives of groups of one rank are left out",
             pass.communicates && exchanges && groups.SizeOf(pass.group) == 1 ? 1 : 0);
}

void NoteLayers(const LayerWorkload& workload, const Groups& groups, Notes* notes) {
  const WorkloadKind kind = workload.kind;
  const bool activations = kind != WorkloadKind::kMicro && kind != WorkloadKind::kData;
  for (const WorkloadLayer& layer : workload.layers) {
    NotePass(layer.forward, activations, workload, groups, notes);
    NotePass(layer.input_gradient, activations, workload, groups, notes);
    NotePass(layer.weight_gradient, kind != WorkloadKind::kModel, workload, groups, notes);
  }
  const LayerPass& first = workload.layers.front().input_gradient;
  const bool unneeded = kind == WorkloadKind::kModel || IsHybrid(kind) ? first.communicates
                        : kind == WorkloadKind::kData                  ? first.compute > 0
                                                                       : false;
  notes->Add("input gradients of the first layer, which nothing needs, are left out",
             unneeded ? 1 : 0);
}

// What a pipeline waits while it fills and drains, as a share of the passes' time of its
// micro-batches, which SimAI adds to the end.
double BubbleOf(const LayerWorkload& workload, const Groups& groups, const LayerOptions& options) {
  const bool has_pipeline = options.dialect == LayerDialect::kSimAi &&
                            workload.kind == WorkloadKind::kTransformer && groups.parallel.pp > 1;
  const auto number = [&](const char* key) {
    return static_cast<double>(std::max<int64_t>(1, workload.Number(key, 1)));
  };
  return has_pipeline ? (groups.parallel.pp - 1) / (number("ga") * number("vpp")) : 0;
}

// Numbers that are 1 or absent change nothing.
void NoteHead(const LayerWorkload& workload, bool has_bubble, Notes* notes) {
  constexpr std::string_view kOfPipeline[] = {"vpp", "ga", "pp_comm"};
  constexpr std::string_view kOfGroups[] = {"model_parallel_NPU_group", "ep", "pp"};
  const bool has_groups = workload.kind == WorkloadKind::kTransformer;
  for (const auto& [key, number] : workload.numbers) {
    const bool taken = key == "all_gpus" || key.starts_with("checkpoint") ||
                       key == kLastBottomLayer ||
                       (has_groups && std::ranges::find(kOfGroups, key) != std::end(kOfGroups));
    if (number <= 1 || taken || (has_bubble && (key == "vpp" || key == "ga"))) {
      continue;
    }
    notes->Add(has_bubble && key == "pp_comm"
                   ? "transfers between the stages of the pipeline (pp_comm) take no time"
               : std::ranges::find(kOfPipeline, key) != std::end(kOfPipeline)
                   ? "header numbers about the pipeline (vpp, ga, pp_comm) are left out"
                   : "header numbers that the kind of parallelism does not use are left out");
  }
}

void NoteMeaning(const LayerWorkload& workload,
                 const Groups& groups,
                 const LayerOptions& options,
                 Notes* notes) {
  const auto layers = static_cast<int64_t>(workload.layers.size());
  notes->Add(options.unit_ns > 0
                 ? fmt::format("layers have compute times in units of {} ns, as asked for",
                               options.unit_ns)
             : options.dialect == LayerDialect::kAstra
                 ? "layers have compute times in microseconds, as Chakra's converter reads them"
                 : "layers have compute times in nanoseconds, as SimAI reads them",
             layers);
  notes->Add("updates of layers take no time",
             std::ranges::count_if(workload.layers,
                                   [](const WorkloadLayer& layer) { return layer.update > 0; }));
  notes->Add("pipeline stages do not wait for each other: the file has the layers of one stage",
             groups.parallel.pp > 1 ? groups.parallel.pp : 0);
  NoteLayers(workload, groups, notes);
  NoteHead(workload, BubbleOf(workload, groups, options) > 0, notes);
}

// The groups of every rank; all share the program of rank 0.
void AddRanks(const Groups& groups, LoweredRank lowered, GraphAssembly* assembly) {
  const std::vector<uint32_t> kinds = lowered.comms;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> known;  // by kind and lowest rank
  for (uint32_t rank = 0; rank < assembly->rank_count(); ++rank) {
    std::vector<uint32_t> comms;
    for (const uint32_t kind : kinds) {
      const std::vector<bool>& span = groups.spans[kind];
      const auto [comm, inserted] =
          known.try_emplace({kind, GroupLeader(rank, groups.dims, span)}, 0);
      if (inserted) {
        comm->second =
            assembly->Communicator(kGroupNames[kind], "", GroupAlong(rank, groups.dims, span));
      }
      comms.push_back(comm->second);
    }
    if (rank == 0) {
      lowered.comms = std::move(comms);
      assembly->AddRank(Rank(0), std::move(lowered));
    } else {
      assembly->AddRankLike(Rank(rank), Rank(0), std::move(comms));
    }
  }
}

}  // namespace

Result<ImportResult> ImportLayersText(std::string_view text,
                                      const std::string& file,
                                      const ImportOptions& options,
                                      const LayerOptions& layers) {
  PRISM_ASSIGN_OR_RETURN(const LayerWorkload workload, ParseLayerWorkload(text, file));
  PRISM_ASSIGN_OR_RETURN(const int64_t ranks, CountRanks(workload, options, layers, file));
  PRISM_ASSIGN_OR_RETURN(const Groups groups,
                         workload.kind == WorkloadKind::kTransformer
                             ? TransformerGroups(workload, ranks, file)
                             : DimensionGroups(workload, ranks, layers.dims, file));
  GraphAssembly assembly(static_cast<uint32_t>(ranks));
  assembly.SetParallel(groups.parallel);
  LayerTasks tasks(workload, groups, layers);
  PRISM_RETURN_IF_ERROR(tasks.Build(&assembly, file));
  TaskLowering lowering(assembly.lower_names());
  Result<LoweredRank> lowered = lowering.Lower(tasks.tasks());
  if (!lowered.ok()) {
    return BadFile(fmt::format("{}:{}", file, lowered.status().message()));
  }
  ImportResult result;
  result.bytes_read = static_cast<int64_t>(text.size());
  result.tasks = static_cast<int64_t>(tasks.tasks().tasks.size()) * ranks;
  result.bubble = BubbleOf(workload, groups, layers);
  NoteMeaning(workload, groups, layers, &result.notes);
  AddRanks(groups, *std::move(lowered), &assembly);
  return FinishImport(std::move(assembly), options, std::move(result), file).result;
}

Result<ImportResult> ImportLayers(const std::string& path,
                                  const ImportOptions& options,
                                  const LayerOptions& layers) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadSource(path));
  return ImportLayersText(text, path, options, layers);
}

}  // namespace prism::slicer
