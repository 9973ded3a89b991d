// How a published run divides its GPUs (row_job.h). A row prints some of the degrees: what the
// others leave, what the nearest run of the same model prints, and what fits a node fill the gaps.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "experiments/published/row_arguments.h"
#include "experiments/published/row_job.h"
#include "experiments/published/row_style.h"

namespace prism::launch {
namespace {

constexpr int64_t kMaxDegree = 1 << 20;

int32_t Degree(const std::optional<int64_t>& stated) {
  return static_cast<int32_t>(std::clamp<int64_t>(stated.value_or(1), 1, kMaxDegree));
}

// GPUs of a replica: derived from micro-batches of one sequence if their number is printed,
// otherwise as few as there are sequences for, and enough to hold a model that is fully trained.
int64_t GpusOfReplica(const PublishedRow& row, int64_t gpus) {
  const int64_t sequences = row.Integer("global_batch").value_or(gpus);
  const int64_t steps = row.Integer("grad_accum").value_or(0);
  if (steps > 0 && sequences % steps == 0 && gpus % (sequences / steps) == 0) {
    return gpus / (sequences / steps);
  }
  int64_t replica = 1;
  while (gpus / replica > sequences && gpus % (2 * replica) == 0) {
    replica *= 2;
  }
  constexpr double kBillionsAGpu = 3;  // states of 16 to 18 bytes per parameter in about 60 GB
  const double billions = row.Number("params_b").value_or(0);
  const bool trains_all = !row.Is("adapters");
  while (trains_all && billions / static_cast<double>(replica) > kBillionsAGpu &&
         gpus % (2 * replica) == 0) {
    replica *= 2;
  }
  return replica;
}

// tp and pp of a replica whose context parallelism is printed: tensor parallel inside a node and
// pipeline parallel beyond.
void AssumeBesideContext(const PublishedRow& row,
                         int64_t cp,
                         int64_t replica,
                         graph::ParallelSizes* sizes) {
  constexpr double kSpread = 0.3;
  constexpr int64_t kNode = 8;
  const int64_t left = std::max<int64_t>(1, replica / cp);
  sizes->tp = static_cast<int32_t>(std::min(left, kNode));
  sizes->pp = static_cast<int32_t>(left / sizes->tp);
  row.Assume("parallel plan: only cp is printed, else the usual one", kSpread);
}

// A run whose plan is not printed at all. Replicas are divided as in the nearest run that prints
// its plan, with the rest after tp and pp being context parallel; if there is none, they are tensor
// parallel inside a node and pipeline parallel beyond.
void AssumePlan(const PublishedRow& row, int64_t gpus, graph::ParallelSizes* sizes) {
  if (FrameworkOfRow(row) == kJax) {
    row.Assume("parallel plan: not printed, fully sharded", 0.03);
    return;
  }
  const int64_t replica = GpusOfReplica(row, gpus);
  const std::optional<PublishedRow> like = NearestPlan(row, gpus, "tp");
  const std::optional<int64_t> stated_cp = row.Integer("cp");
  if (stated_cp.has_value() && !(like.has_value() && like->Integer("cp") == stated_cp)) {
    AssumeBesideContext(row, *stated_cp, std::max(replica, *stated_cp), sizes);
    return;
  }
  if (like.has_value()) {
    const int32_t tp = Degree(like->Integer("tp"));
    const int32_t pp = Degree(like->Integer("pp"));
    const int32_t cp = Degree(like->Integer("cp"));
    const int64_t model_parallel = int64_t{tp} * pp * cp;
    const int64_t sequences = row.Integer("global_batch").value_or(gpus);
    const bool counted = row.Integer("grad_accum").has_value();
    if (!counted && gpus % model_parallel == 0 && gpus / model_parallel <= sequences) {
      sizes->tp = tp;
      sizes->pp = pp;
      sizes->cp = cp;
      row.Assume("parallel plan: not printed, as in the nearest run that prints one", 0.03);
      return;
    }
    if (replica % (int64_t{tp} * pp) == 0) {
      sizes->tp = tp;
      sizes->pp = pp;
      sizes->cp = static_cast<int32_t>(replica / (int64_t{tp} * pp));
      row.Assume("parallel plan: not printed, as in the nearest run that prints one", 0.03);
      return;
    }
  }
  sizes->tp = static_cast<int32_t>(std::min<int64_t>(replica, 8));
  sizes->pp = static_cast<int32_t>(replica / sizes->tp);
  row.Assume("parallel plan: not printed, the usual one", 0.12);
}

bool HasExperts(const PublishedRow& row) {
  return row.Integer("experts").has_value() || ArgumentFor(row, "experts").has_value();
}

// Megatron-LM and NeMo divide experts as they divide layers unless told otherwise; recipes of
// Megatron-Bridge and of DeepSeek-V3 say 1, and Megatron-Core's own pages usually print 1.
int32_t ExpertTensorDegree(const PublishedRow& row, int32_t tp, int64_t gpus) {
  const std::optional<int64_t> stated = row.Integer("etp");
  const bool open = !stated.has_value() && tp > 1 && HasExperts(row) &&
                    FrameworkOfRow(row) == kMegatronCore && !row.Is("whole experts");
  if (!open) {
    return Degree(stated);
  }
  if (StatesArguments(row) || !row.Is("own scripts")) {
    row.Assume("experts: divided over tp, as Megatron-Core does unless told otherwise");
    return tp;
  }
  constexpr double kSpread = 0.2;
  if (const std::optional<PublishedRow> like = NearestPlan(row, gpus, "etp")) {
    row.Assume("experts: divided as in the nearest run that says so", kSpread);
    return std::min(tp, Degree(like->Integer("etp")));
  }
  row.Assume("experts: whole on a rank", kSpread);
  return 1;
}

// Degrees of experts if the row has experts and gives none: as in the nearest run, else inside a
// node.
int32_t ExpertDegree(const PublishedRow& row, int64_t gpus) {
  const std::optional<int64_t> stated = row.Integer("ep");
  if (stated.has_value() || !HasExperts(row)) {
    return Degree(stated);
  }
  constexpr double kSpread = 0.2;
  if (const std::optional<PublishedRow> like = NearestPlan(row, gpus, "ep")) {
    row.Assume("expert parallel: not stated, as in the nearest run", kSpread);
    return Degree(like->Integer("ep"));
  }
  constexpr int32_t kInsideNode = 8;
  row.Assume("expert parallel: not stated, inside a node", kSpread);
  return kInsideNode;
}

// A degree that the row omits is its GPUs divided by the others: the first missing one of tp, pp
// and cp if the number of replicas is given, else cp if there are fewer sequences than replicas.
void FillDegree(const PublishedRow& row, int64_t gpus, graph::ParallelSizes* sizes) {
  const int64_t known = int64_t{sizes->tp} * sizes->pp * sizes->cp;
  const int64_t replicas = row.Integer("dp").value_or(0);
  if (known > gpus || replicas > gpus) {
    return;
  }
  const int64_t batch = row.Integer("global_batch").value_or(gpus);
  const bool crowded = gpus % (known * batch) == 0 && gpus > known * batch;
  if (replicas > 0) {
    const int64_t left = gpus / (known * replicas);
    int32_t* missing = nullptr;
    for (const auto& [column, degree] :
         {std::pair{"cp", &sizes->cp}, std::pair{"pp", &sizes->pp}, std::pair{"tp", &sizes->tp}}) {
      missing = row.Integer(column).has_value() ? missing : degree;
    }
    if (missing != nullptr && left > 1 && left * known * replicas == gpus) {
      *missing = static_cast<int32_t>(left);
      row.Assume("parallel plan: the degree that is not printed is what the others leave");
    } else if (missing == nullptr && crowded) {
      // Not all that are left can be replicas.
      constexpr double kSpread = 0.15;
      sizes->cp *= static_cast<int32_t>(gpus / (known * batch));
      row.Assume("context parallel: more ranks than printed, a sequence a replica", kSpread);
    }
    return;
  }
  if (crowded && !row.Integer("cp").has_value()) {
    sizes->cp = static_cast<int32_t>(gpus / (known * batch));
    row.Assume("context parallel: not printed, as many ranks as leave a replica a sequence", 0.1);
  }
}

// GPUs of the job: printed, or the product of the degrees. If the number of replicas is not given
// either: the fewest that fill a node and hold the experts.
int64_t GpusOfRow(const PublishedRow& row, const graph::ParallelSizes& sizes) {
  if (const std::optional<int64_t> stated = row.Integer("num_gpus")) {
    return *stated;
  }
  const int64_t replica = int64_t{sizes.tp} * sizes.pp * sizes.cp;
  const int64_t replicas = row.Integer("dp").value_or(0);
  const bool states_plan = row.Integer("tp").has_value() || row.Integer("pp").has_value();
  if (replicas > 0 || !states_plan || replica > kMaxDegree) {
    return replica * replicas;
  }
  constexpr double kSpread = 0.5;  // of the time, which depends on the number of replicas
  constexpr int32_t kUsualNode = 8;
  constexpr int32_t kOfRelease = 8 * kUsualNode;  // the least that most of Megatron-LM's need
  const bool of_release = row.Is("release run");
  row.Assume(of_release ? "number of GPUs: 64, or the fewest nodes that hold the plan"
                        : "number of GPUs: the fewest nodes that hold the plan",
             kSpread);
  const int64_t of_node =
      row.Integer("gpus_per_node").has_value() ? Degree(row.Integer("gpus_per_node")) : kUsualNode;
  const int64_t of_experts = int64_t{sizes.pp} * Degree(row.Integer("ep")) *
                             ExpertTensorDegree(row.With(nullptr), sizes.tp, replica);
  const int64_t least = of_release ? std::max<int64_t>(of_node, kOfRelease) : of_node;
  return std::lcm(replica,
                  std::clamp<int64_t>(of_experts, least, std::max<int64_t>(least, kMaxDegree)));
}

}  // namespace

std::optional<PublishedRow> NearestPlan(const PublishedRow& row,
                                        int64_t gpus,
                                        std::string_view degree) {
  std::optional<PublishedRow> nearest;
  double least = 0;
  for (const PublishedRow& other : row.RowsOfTable()) {
    const std::optional<int64_t> its_gpus = other.Integer("num_gpus");
    if (!other.Integer(degree).has_value() || !its_gpus.has_value() ||
        other.Text("model") != row.Text("model") || other.Text("gpu") != row.Text("gpu") ||
        FrameworkOfRow(other) != FrameworkOfRow(row)) {
      continue;
    }
    const double ratio = static_cast<double>(*its_gpus) / static_cast<double>(gpus);
    const double distance = std::abs(std::log2(ratio));
    if (!nearest.has_value() || distance < least) {
      nearest = other;
      least = distance;
    }
  }
  return nearest;
}

Result<graph::ParallelSizes> SizesOfRow(const PublishedRow& row) {
  graph::ParallelSizes sizes;
  sizes.tp = Degree(row.Integer("tp"));
  sizes.pp = Degree(row.Integer("pp"));
  sizes.cp = Degree(row.Integer("cp"));
  const int64_t stated_replicas = row.Integer("dp").value_or(0);
  const int64_t gpus = GpusOfRow(row, sizes);
  if (gpus <= 0 || gpus > kMaxDegree) {
    return RunFailed("number of GPUs is missing");
  }
  sizes.ep = ExpertDegree(row, gpus);
  if (!row.Integer("tp").has_value() && !row.Integer("pp").has_value()) {
    AssumePlan(row, gpus, &sizes);
  } else {
    FillDegree(row, gpus, &sizes);
  }
  sizes.etp = ExpertTensorDegree(row, sizes.tp, gpus);
  sizes.vpp = sizes.pp == 1 ? 1 : Degree(row.Integer("vpp"));
  const int64_t model_parallel = int64_t{sizes.tp} * sizes.pp * sizes.cp;
  if (model_parallel > gpus) {
    return RunFailed(fmt::format("tp x pp x cp is {} on {} GPUs", model_parallel, gpus));
  }
  sizes.dp = static_cast<int32_t>(gpus / model_parallel);
  if (const int64_t idle = gpus % model_parallel; idle > 0) {
    row.Assume("GPUs: those that the plan does not divide are idle",
               static_cast<double>(idle) / static_cast<double>(gpus));
  }
  if (stated_replicas != 0 && stated_replicas != sizes.dp) {
    row.Assume("data parallel degree: GPUs / (tp x pp x cp), not what is printed");
  }
  return sizes;
}

}  // namespace prism::launch
