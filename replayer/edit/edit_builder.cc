#include "replayer/edit/edit_builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "graph/base/glob.h"
#include "graph/base/lower_case.h"
#include "graph/validate/limits.h"
#include "replayer/cost/measured_kernels.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

bool IsKernelOf(const graph::Program& program, uint32_t op, const std::set<uint32_t>& signatures) {
  return program.kind[op] == OpKind::kKernel && signatures.contains(program.signature[op]);
}

bool IsFixedKernel(const graph::Program& program, uint32_t op) {
  return program.kind[op] == OpKind::kKernel && (program.flags[op] & graph::kDurationFixed) != 0;
}

// As graph/validate/validate.h requires. Anything longer than a program may take becomes the limit
// plus one, which CheckDurations refuses.
DurationNs ScaledNs(DurationNs duration, double factor) {
  constexpr auto kTooLong = static_cast<double>(graph::kMaxProgramNs + 1);
  return std::llround(std::min(kTooLong, factor * static_cast<double>(duration)));
}

Status CheckDurations(const Edit& edit) {
  for (const ProgramEdit& program : edit.programs) {
    const double sum = std::accumulate(
        program.durations.begin(), program.durations.end(), 0.0,
        [](double ns, const OpDuration& op) { return ns + static_cast<double>(op.duration_ns); });
    if (sum > static_cast<double>(graph::kMaxProgramNs)) {
      return BadFile("the kernels of a program would take more than 11 days");
    }
  }
  return OkStatus();
}

}  // namespace

EditBuilder::EditBuilder(const graph::Graph& graph, const ReplayOptions& options)
    : graph_(graph), options_(options), original_(graph.cluster), compute_(graph.cluster) {
  for (uint32_t s = 0; s < graph.signatures.size(); ++s) {
    const std::string key = RecordedKernelKey(graph, graph.signatures[s]);
    if (graph.cluster.parameters.Find(key) != nullptr) {
      recorded_.insert(s);
    }
  }
}

ReplayOptions& EditBuilder::OtherOptions() {
  if (!edit_.options) {
    edit_.options = options_;
  }
  return *edit_.options;
}

void EditBuilder::UseCluster(graph::ClusterSpec cluster) {
  compute_ = ComputeCost(cluster);
  edit_.cluster = std::move(cluster);
}

int64_t EditBuilder::MeasuredKernels(bool following) const {
  int64_t count = 0;
  for (const graph::Role& role : graph_.roles) {
    for (uint32_t op = 0; op < role.program.size(); ++op) {
      count += IsFixedKernel(role.program, op) && Follows(role.program, op) == following ? 1 : 0;
    }
  }
  return count;
}

bool EditBuilder::Follows(const graph::Program& program, uint32_t op) const {
  if (!IsFixedKernel(program, op)) {
    return false;
  }
  const graph::KernelSignature& signature = graph_.signatures[program.signature[op]];
  return recorded_.contains(program.signature[op]) ? takes_gpu_ : signature.matmul.m > 0;
}

double EditBuilder::ClusterShare(const graph::KernelSignature& signature) const {
  const DurationNs before = original_.UnrecordedKernel(graph_, signature).duration_ns;
  const DurationNs after = compute_.UnrecordedKernel(graph_, signature).duration_ns;
  return static_cast<double>(after) / static_cast<double>(std::max<DurationNs>(1, before));
}

// First, so that other changes of the same kernels come behind.
void EditBuilder::RescaleMeasured() {
  std::vector<ProgramEdit> edits;
  for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
    const graph::Program& program = graph_.roles[role].program;
    ProgramEdit edit;
    edit.role = role;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (Follows(program, op) && DurationOf(program, op) != program.value[op]) {
        edit.durations.push_back({op, DurationOf(program, op)});
      }
    }
    if (!edit.durations.empty()) {
      edits.push_back(std::move(edit));
    }
  }
  edit_.programs.insert(edit_.programs.begin(), edits.begin(), edits.end());
}

void EditBuilder::TakeGpuOf(const graph::ClusterSpec& other) {
  graph::ClusterSpec cluster = graph_.cluster;
  cluster.gpu = other.gpu;
  std::vector<graph::Parameter> parameters = cluster.parameters.all();
  std::erase_if(parameters, [](const graph::Parameter& parameter) {
    return IsMeasuredKernelKey(parameter.key);
  });
  cluster.parameters = graph::ParameterTable(std::move(parameters));
  ScaleRecorded(ComputeCost(other), &cluster);
  std::vector<graph::Parameter> taken;
  for (const graph::Parameter& parameter : other.parameters.all()) {
    const bool known = cluster.parameters.Find(parameter.key) != nullptr;
    if (IsMeasuredKernelKey(parameter.key) || (known && parameter.key.starts_with("gpu."))) {
      taken.push_back(parameter);
    }
  }
  cluster.parameters.Put(taken);
  takes_gpu_ = true;
  const int64_t following = MeasuredKernels(true);
  assumptions_.push_back(fmt::format(
      "on {} the same kernels run with the same grids; {} of measured duration keep it{}; {}nodes, "
      "links and hosts stay",
      cluster.gpu.name, MeasuredKernels(false),
      following == 0 ? "" : fmt::format(", {} change it as the model's times do", following),
      recorded_.empty() ? "" : "those timed by --record-device change as the modelled ones; "));
  UseCluster(std::move(cluster));
}

// What this job took on a GPU, by the other one's share of the modelled times.
void EditBuilder::ScaleRecorded(const ComputeCost& other, graph::ClusterSpec* cluster) {
  const auto scale = [cluster](const std::string& key, DurationNs before, DurationNs after) {
    if (const graph::Parameter* const known = cluster->parameters.Find(key)) {
      cluster->parameters.SetValue(key, known->value * static_cast<double>(after) /
                                            static_cast<double>(std::max<DurationNs>(1, before)));
    }
  };
  for (const uint32_t s : recorded_) {
    const graph::KernelSignature& signature = graph_.signatures[s];
    scale(RecordedKernelKey(graph_, signature),
          compute_.UnrecordedKernel(graph_, signature).duration_ns,
          other.UnrecordedKernel(graph_, signature).duration_ns);
  }
  std::set<std::string> done;
  for (const graph::Role& role : graph_.roles) {
    const graph::Program& program = role.program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      const int64_t bytes = program.value[op];
      const uint8_t flags = program.flags[op];
      if (program.kind[op] == OpKind::kMemcpy &&
          done.insert(RecordedCopyKey(bytes, flags)).second) {
        scale(RecordedCopyKey(bytes, flags), compute_.UnrecordedCopy(bytes, flags),
              other.UnrecordedCopy(bytes, flags));
      } else if (program.kind[op] == OpKind::kMemset &&
                 done.insert(RecordedMemsetKey(bytes)).second) {
        scale(RecordedMemsetKey(bytes), compute_.UnrecordedMemset(bytes),
              other.UnrecordedMemset(bytes));
      }
    }
  }
}

Status EditBuilder::SetParameter(const std::string& key, double value) {
  graph::ClusterSpec cluster = edit_.cluster.value_or(graph_.cluster);
  const graph::Parameter* known = cluster.parameters.Find(key);
  if (known == nullptr) {
    return BadFile(fmt::format("the cluster has no parameter '{}'", key));
  }
  cluster.parameters.Put({{key, value, known->unit, "edited", graph::Mark::kAssumed}});
  UseCluster(std::move(cluster));
  return OkStatus();
}

void EditBuilder::Perturb(Perturbation perturbation) {
  OtherOptions().perturbations.push_back(std::move(perturbation));
}

DurationNs EditBuilder::DurationOf(const graph::Program& program, uint32_t op) const {
  if (IsFixedKernel(program, op)) {
    return edit_.cluster && Follows(program, op)
               ? ScaledNs(program.value[op], ClusterShare(graph_.signatures[program.signature[op]]))
               : program.value[op];
  }
  return compute_.Kernel(graph_, graph_.signatures[program.signature[op]]).duration_ns;
}

std::set<uint32_t> EditBuilder::SignaturesOf(const KernelChange& change) const {
  const std::string pattern = LowerCase(change.pattern);  // cublasGemmEx is a "*gemm*"
  std::set<uint32_t> signatures;
  for (uint32_t s = 0; s < graph_.signatures.size(); ++s) {
    const graph::KernelSignature& signature = graph_.signatures[s];
    const graph::MatmulShape& product = signature.matmul;
    const bool shaped =
        change.shape.empty() ||
        FitsPattern(fmt::format("{}x{}x{}", product.m, product.n, product.k), change.shape);
    if (shaped && FitsPattern(LowerCase(graph_.string(signature.name)), pattern)) {
      signatures.insert(s);
    }
  }
  return signatures;
}

std::vector<OpDuration> EditBuilder::FusedRuns(const graph::Program& program,
                                               const std::set<uint32_t>& signatures) const {
  std::vector<OpDuration> durations;
  for (uint32_t begin = 0; begin < program.size();) {
    uint32_t end = begin;
    DurationNs longest = 0;
    while (end < program.size() && IsKernelOf(program, end, signatures) &&
           program.stream[end] == program.stream[begin]) {
      longest = std::max(longest, DurationOf(program, end++));
    }
    for (uint32_t op = begin; end > begin + 1 && op < end; ++op) {
      durations.push_back({op, op == begin ? longest : 0});
    }
    begin = std::max(end, begin + 1);
  }
  return durations;
}

std::vector<OpDuration> EditBuilder::ChangedDurations(const graph::Program& program,
                                                      const std::set<uint32_t>& signatures,
                                                      const KernelChange& change) const {
  std::vector<OpDuration> durations;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (!IsKernelOf(program, op, signatures)) {
      continue;
    }
    const DurationNs duration = change.kind == KernelChange::Kind::kDuration
                                    ? change.duration_ns
                                    : ScaledNs(DurationOf(program, op), change.factor);
    durations.push_back({op, duration});
  }
  return durations;
}

// True when the ranks of the role to which the change applies have any such kernel.
Result<bool> EditBuilder::ChangeRole(uint32_t role,
                                     const std::set<uint32_t>& signatures,
                                     const KernelChange& change) {
  ProgramEdit edit;
  edit.role = role;
  std::copy_if(change.ranks.begin(), change.ranks.end(), std::back_inserter(edit.ranks),
               [&](Rank rank) { return graph_.ranks.role[rank.value()] == role; });
  if (edit.ranks.empty() != change.ranks.empty()) {
    return false;
  }
  const graph::Program& program = graph_.roles[role].program;
  edit.durations = change.kind == KernelChange::Kind::kFuse
                       ? FusedRuns(program, signatures)
                       : ChangedDurations(program, signatures, change);
  if (edit.durations.empty()) {
    return false;
  }
  PRISM_RETURN_IF_ERROR(Add(std::move(edit)));
  return true;
}

Status EditBuilder::ChangeKernels(const KernelChange& change) {
  const std::set<uint32_t> signatures = SignaturesOf(change);
  bool any = false;
  for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
    PRISM_ASSIGN_OR_RETURN(const bool changed, ChangeRole(role, signatures, change));
    any = any || changed;
  }
  const bool fuse = change.kind == KernelChange::Kind::kFuse;
  if (!any) {
    return BadFile(fmt::format("no {} of these ranks matches '{}'",
                               fuse ? "run of kernels" : "kernel", change.pattern));
  }
  if (fuse) {
    assumptions_.push_back(
        fmt::format("fused runs of '{}' take as long as their longest kernel; the host issues as "
                    "many ops as before",
                    change.pattern));
  }
  return OkStatus();
}

Status EditBuilder::ChangePrecision(DataType type) {
  for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
    const graph::Program& program = graph_.roles[role].program;
    ProgramEdit edit;
    edit.role = role;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] != OpKind::kKernel ||
          graph_.signatures[program.signature[op]].matmul.m == 0) {
        continue;
      }
      graph::KernelSignature signature = graph_.signatures[program.signature[op]];
      const DurationNs before = compute_.UnrecordedKernel(graph_, signature).duration_ns;
      signature.matmul.input = type;
      const auto after =
          static_cast<double>(compute_.UnrecordedKernel(graph_, signature).duration_ns);
      const double share = after / static_cast<double>(std::max<DurationNs>(1, before));
      edit.durations.push_back({op, ScaledNs(DurationOf(program, op), share)});
    }
    if (!edit.durations.empty()) {
      PRISM_RETURN_IF_ERROR(Add(std::move(edit)));
    }
  }
  assumptions_.emplace_back(
      "only matrix products change precision: no kernel casts, and activations and transfers keep "
      "their size");
  return OkStatus();
}

Status EditBuilder::Add(ProgramEdit edit) {
  for (const OpDuration& op : edit.durations) {
    if (!changed_[edit.role].insert(op.op).second) {
      return BadFile(
          fmt::format("op {} of role '{}' is named twice", op.op, graph_.roles[edit.role].name));
    }
  }
  edit_.programs.push_back(std::move(edit));
  return OkStatus();
}

void EditBuilder::SetOp(Rank rank, uint32_t op, DurationNs duration_ns) {
  edit_.programs.push_back(
      {.role = graph_.ranks.role[rank.value()], .ranks = {rank}, .durations = {{op, duration_ns}}});
}

Status EditBuilder::ForceAlgorithm(const std::string& communicator, NcclAlgorithm algorithm) {
  const bool all = communicator == "*";
  const bool known = std::ranges::any_of(graph_.communicators.name, [&](uint32_t name) {
    return graph_.string(StringId(name)) == communicator;
  });
  if (!all && !known) {
    return BadFile(fmt::format("no communicator is called '{}'", communicator));
  }
  OtherOptions().algorithms.push_back({all ? "" : communicator, algorithm});
  return OkStatus();
}

void EditBuilder::Place(std::vector<uint32_t> gpus) {
  OtherOptions().placement = std::move(gpus);
}

void EditBuilder::SwapPlaces(Rank rank, Rank other) {
  std::vector<uint32_t>& placement = OtherOptions().placement;
  if (placement.empty()) {
    placement.resize(graph_.ranks.size());
    std::iota(placement.begin(), placement.end(), 0U);
  }
  std::swap(placement[rank.value()], placement[other.value()]);
}

Result<Edit> EditBuilder::Take() && {
  if (edit_.cluster) {
    RescaleMeasured();
  }
  PRISM_RETURN_IF_ERROR(CheckProgramEdits(graph_, edit_));
  PRISM_RETURN_IF_ERROR(CheckDurations(edit_));
  return std::move(edit_);
}

}  // namespace prism::replayer
