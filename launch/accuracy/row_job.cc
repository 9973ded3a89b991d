#include "launch/accuracy/row_job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "launch/accuracy/row_arguments.h"
#include "launch/accuracy/row_recompute.h"
#include "launch/accuracy/row_style.h"

namespace prism::launch {
namespace {

constexpr int64_t kMaxDegree = 1 << 20;

int32_t Degree(const std::optional<int64_t>& stated) {
  return static_cast<int32_t>(std::clamp<int64_t>(stated.value_or(1), 1, kMaxDegree));
}

// The run of the table that prints this degree of its plan and is nearest to this one: same model,
// GPU and framework, the number of GPUs as near as possible; null if there is none.
std::optional<PublishedRow> NearestPlan(const PublishedRow& row,
                                        int64_t gpus,
                                        std::string_view degree) {
  std::optional<PublishedRow> nearest;
  double least = 0;
  for (const PublishedRow& other : row.RowsOfTable()) {
    const std::optional<int64_t> its_gpus = other.Integer("num_gpus");
    if (!other.Integer(degree).has_value() || !its_gpus.has_value() ||
        other.Text("model") != row.Text("model") || other.Text("gpu") != row.Text("gpu") ||
        FamilyOfRow(other) != FamilyOfRow(row)) {
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
  const bool trains_all = !row.Says("run_kind", "lora") && !row.Says("model", "lora");
  while (trains_all && billions / static_cast<double>(replica) > kBillionsAGpu &&
         gpus % (2 * replica) == 0) {
    replica *= 2;
  }
  return replica;
}

// tp and pp of a replica whose context parallelism is printed: tensor parallel inside a node and
// pipeline parallel beyond.
void AssumeBesideContext(int64_t cp,
                         int64_t replica,
                         Assumptions* assumptions,
                         graph::ParallelSizes* sizes) {
  constexpr double kSpread = 0.3;
  constexpr int64_t kNode = 8;
  const int64_t left = std::max<int64_t>(1, replica / cp);
  sizes->tp = static_cast<int32_t>(std::min(left, kNode));
  sizes->pp = static_cast<int32_t>(left / sizes->tp);
  assumptions->Add("parallel plan: only cp is printed, else the usual one", kSpread);
}

// A run whose plan is not printed at all. Replicas are divided as in the nearest run that prints
// its plan, with the rest after tp and pp being context parallel; if there is none, they are tensor
// parallel inside a node and pipeline parallel beyond.
void AssumePlan(const PublishedRow& row,
                int64_t gpus,
                Assumptions* assumptions,
                graph::ParallelSizes* sizes) {
  if (FamilyOfRow(row) == FrameworkFamily::kJax) {
    assumptions->Add("parallel plan: not printed, fully sharded", 0.03);
    return;
  }
  const int64_t replica = GpusOfReplica(row, gpus);
  const std::optional<PublishedRow> like = NearestPlan(row, gpus, "tp");
  const std::optional<int64_t> stated_cp = row.Integer("cp");
  if (stated_cp.has_value() && !(like.has_value() && like->Integer("cp") == stated_cp)) {
    AssumeBesideContext(*stated_cp, std::max(replica, *stated_cp), assumptions, sizes);
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
      assumptions->Add("parallel plan: not printed, as in the nearest run that prints one", 0.03);
      return;
    }
    if (replica % (int64_t{tp} * pp) == 0) {
      sizes->tp = tp;
      sizes->pp = pp;
      sizes->cp = static_cast<int32_t>(replica / (int64_t{tp} * pp));
      assumptions->Add("parallel plan: not printed, as in the nearest run that prints one", 0.03);
      return;
    }
  }
  sizes->tp = static_cast<int32_t>(std::min<int64_t>(replica, 8));
  sizes->pp = static_cast<int32_t>(replica / sizes->tp);
  assumptions->Add("parallel plan: not printed, the usual one", 0.12);
}

bool HasExperts(const PublishedRow& row) {
  return row.Integer("experts").has_value() || ArgumentFor(row, "experts").has_value();
}

// Megatron-LM and NeMo divide experts as they divide layers unless told otherwise; recipes of
// Megatron-Bridge and of DeepSeek-V3 say 1, and Megatron-Core's own pages usually print 1.
int32_t ExpertTensorDegree(const PublishedRow& row,
                           int32_t tp,
                           int64_t gpus,
                           Assumptions* assumptions) {
  const std::optional<int64_t> stated = row.Integer("etp");
  const bool open = !stated.has_value() && tp > 1 && HasExperts(row) &&
                    FamilyOfRow(row) == FrameworkFamily::kMegatronCore &&
                    !row.Says("framework", "bridge") && !row.Says("model", "deepseek");
  if (!open) {
    return Degree(stated);
  }
  if (StatesArguments(row) || !RunsMegatronLmScripts(row)) {
    assumptions->Add("experts: divided over tp, as Megatron-Core does unless told otherwise");
    return tp;
  }
  constexpr double kSpread = 0.2;
  if (const std::optional<PublishedRow> like = NearestPlan(row, gpus, "etp")) {
    assumptions->Add("experts: divided as in the nearest run that says so", kSpread);
    return std::min(tp, Degree(like->Integer("etp")));
  }
  assumptions->Add("experts: whole on a rank", kSpread);
  return 1;
}

// Degrees of experts if the row has experts and gives none: as in the nearest run, else inside a
// node.
int32_t ExpertDegree(const PublishedRow& row, int64_t gpus, Assumptions* assumptions) {
  const std::optional<int64_t> stated = row.Integer("ep");
  if (stated.has_value() || !HasExperts(row)) {
    return Degree(stated);
  }
  constexpr double kSpread = 0.2;
  if (const std::optional<PublishedRow> like = NearestPlan(row, gpus, "ep")) {
    assumptions->Add("expert parallel: not stated, as in the nearest run", kSpread);
    return Degree(like->Integer("ep"));
  }
  constexpr int32_t kInsideNode = 8;
  assumptions->Add("expert parallel: not stated, inside a node", kSpread);
  return kInsideNode;
}

// A degree that the row omits is its GPUs divided by the others: the first missing one of tp, pp
// and cp if the number of replicas is given, else cp if there are fewer sequences than replicas.
void FillDegree(const PublishedRow& row,
                int64_t gpus,
                Assumptions* assumptions,
                graph::ParallelSizes* sizes) {
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
      assumptions->Add("parallel plan: the degree that is not printed is what the others leave");
    } else if (missing == nullptr && crowded) {
      // Not all that are left can be replicas.
      constexpr double kSpread = 0.15;
      sizes->cp *= static_cast<int32_t>(gpus / (known * batch));
      assumptions->Add("context parallel: more ranks than printed, a sequence a replica", kSpread);
    }
    return;
  }
  if (crowded && !row.Integer("cp").has_value()) {
    sizes->cp = static_cast<int32_t>(gpus / (known * batch));
    assumptions->Add("context parallel: not printed, as many ranks as leave a replica a sequence",
                     0.1);
  }
}

// GPUs of the job: printed, or the product of the degrees. If the number of replicas is not given
// either: the fewest that fill a node and hold the experts.
int64_t GpusOfRow(const PublishedRow& row,
                  const graph::ParallelSizes& sizes,
                  Assumptions* assumptions) {
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
  const bool of_release = row.Says("note", "release run");
  assumptions->Add(of_release ? "number of GPUs: 64, or the fewest nodes that hold the plan"
                              : "number of GPUs: the fewest nodes that hold the plan",
                   kSpread);
  const int64_t of_node =
      row.Integer("gpus_per_node").has_value() ? Degree(row.Integer("gpus_per_node")) : kUsualNode;
  Assumptions noted_later;
  const int64_t of_experts = int64_t{sizes.pp} * Degree(row.Integer("ep")) *
                             ExpertTensorDegree(row, sizes.tp, replica, &noted_later);
  const int64_t least = of_release ? std::max<int64_t>(of_node, kOfRelease) : of_node;
  return std::lcm(replica,
                  std::clamp<int64_t>(of_experts, least, std::max<int64_t>(least, kMaxDegree)));
}

Result<graph::ParallelSizes> SizesOfRow(const PublishedRow& row, Assumptions* assumptions) {
  graph::ParallelSizes sizes;
  sizes.tp = Degree(row.Integer("tp"));
  sizes.pp = Degree(row.Integer("pp"));
  sizes.cp = Degree(row.Integer("cp"));
  const int64_t stated_replicas = row.Integer("dp").value_or(0);
  const int64_t gpus = GpusOfRow(row, sizes, assumptions);
  if (gpus <= 0 || gpus > kMaxDegree) {
    return RunFailed("number of GPUs is missing");
  }
  sizes.ep = ExpertDegree(row, gpus, assumptions);
  if (!row.Integer("tp").has_value() && !row.Integer("pp").has_value()) {
    AssumePlan(row, gpus, assumptions, &sizes);
  } else {
    FillDegree(row, gpus, assumptions, &sizes);
  }
  sizes.etp = ExpertTensorDegree(row, sizes.tp, gpus, assumptions);
  sizes.vpp = sizes.pp == 1 ? 1 : Degree(row.Integer("vpp"));
  const int64_t model_parallel = int64_t{sizes.tp} * sizes.pp * sizes.cp;
  if (model_parallel > gpus) {
    return RunFailed(fmt::format("tp x pp x cp is {} on {} GPUs", model_parallel, gpus));
  }
  sizes.dp = static_cast<int32_t>(gpus / model_parallel);
  if (const int64_t idle = gpus % model_parallel; idle > 0) {
    assumptions->Add("GPUs: those that the plan does not divide are idle",
                     static_cast<double>(idle) / static_cast<double>(gpus));
  }
  if (stated_replicas != 0 && stated_replicas != sizes.dp) {
    assumptions->Add("data parallel degree: GPUs / (tp x pp x cp), not what is printed");
  }
  return sizes;
}

// Sequences per micro-batch if the source does not say. Megatron-LM's own runs without a pipeline
// that do (SC21, Korthikanti et al.) take their step in one micro-batch if memory allows.
int64_t UsualMicroBatch(const PublishedRow& row,
                        const graph::ParallelSizes& sizes,
                        int64_t seq_len,
                        int64_t batch) {
  const int64_t per_replica = std::max<int64_t>(1, batch / sizes.dp);
  const std::optional<int64_t> steps = row.Integer("grad_accum");
  if (steps.has_value()) {
    return std::max<int64_t>(1, per_replica / *steps);
  }
  if (FamilyOfRow(row) == FrameworkFamily::kTorchtitan && sizes.pp > 1 &&
      row.Says("framework_version", "2024") && per_replica % sizes.pp == 0) {
    return per_replica / sizes.pp;  // as many micro-batches as stages, its default until 2025
  }
  if (sizes.pp > 1 || seq_len > 8192) {
    return 1;
  }
  // Tokens of a micro-batch if memory is not tight.
  const int64_t most_tokens = RunsMegatronLmScripts(row) ? 16384 : 8192;
  const int64_t most = std::max<int64_t>(1, most_tokens / seq_len);
  int64_t size = std::min(most, per_replica);
  while (per_replica % size != 0) {
    --size;
  }
  return size;
}

Status ReadBatch(const PublishedRow& row, Assumptions* assumptions, graph::JobSpec* job) {
  const int64_t replicas = job->parallel.dp;
  std::optional<int64_t> batch = row.Integer("global_batch");
  const std::optional<int64_t> micro = row.Integer("micro_batch");
  if (!batch.has_value() && !row.Integer("grad_accum").has_value()) {
    if (const std::optional<PublishedRow> like =
            NearestPlan(row, job->parallel.world_size(), "global_batch")) {
      constexpr double kSpread = 0.5;
      assumptions->Add("batch: not printed, as in the nearest run that prints one", kSpread);
      batch = like->Integer("global_batch");
    }
  }
  if (!batch.has_value() && micro.has_value()) {
    batch = *micro * replicas *
            assumptions->Or<int64_t>(row.Integer("grad_accum"), 1, "micro-batches: 1 a step");
  }
  if (!batch.has_value() || *batch <= 0) {
    return RunFailed("batch is missing");
  }
  job->micro_batch_size = assumptions->Or(
      micro, UsualMicroBatch(row, job->parallel, job->seq_len, *batch), "micro-batch: usual", 0.03);
  // If replicas do not get a whole micro-batch: a smaller one, then fewer micro-batches than
  // stated.
  if (job->micro_batch_size * replicas > *batch) {
    job->micro_batch_size = std::max<int64_t>(1, *batch / replicas);
    assumptions->Add("micro-batch: cut to batch / dp");
  }
  const auto step = static_cast<double>(job->micro_batch_size * replicas);
  const int64_t count = std::max<int64_t>(1, std::llround(static_cast<double>(*batch) / step));
  job->global_batch_size = count * job->micro_batch_size * replicas;
  if (job->global_batch_size != *batch) {
    const double ratio = static_cast<double>(job->global_batch_size) / static_cast<double>(*batch);
    assumptions->Add("batch: rounded to whole micro-batches", std::abs(std::log(ratio)));
  }
  return OkStatus();
}

// Recipes of Megatron-Core interleave whenever there is a pipeline, in chunks of one or few layers;
// Megatron-LM's own runs that say so (SC21, Korthikanti et al.) have at most three chunks per
// stage.
void AssumeInterleaving(const PublishedRow& row, Assumptions* assumptions, graph::JobSpec* job) {
  graph::ParallelSizes& sizes = job->parallel;
  if (FamilyOfRow(row) == FrameworkFamily::kTorchtitan && sizes.pp > 1 &&
      row.Says("extra", "schedule=interleaved") && !row.Integer("vpp").has_value()) {
    sizes.vpp = 2;
    assumptions->Add("interleaving: two stages a rank, as torchtitan has it", 0.04);
    return;
  }
  if (row.Says("framework", "meta") && sizes.pp > 1 && !row.Integer("vpp").has_value()) {
    constexpr int64_t kEnds = 2;  // the first and the last stage have one layer less
    sizes.vpp = static_cast<int32_t>(std::max<int64_t>(1, (job->model.layers + kEnds) / sizes.pp));
    assumptions->Add("interleaving: chunks of one layer, as Llama 3 was trained", 0.1);
    return;
  }
  if (FamilyOfRow(row) == FrameworkFamily::kNanotron && sizes.vpp > 1) {
    sizes.vpp = 1;
    assumptions->Add("interleaving: left out, nanotron has none");
    return;
  }
  // Megatron-Bridge's tables state it if there is any.
  const bool recipe =
      FamilyOfRow(row) == FrameworkFamily::kMegatronCore && !row.Says("framework", "bridge");
  if (!recipe || sizes.pp == 1 || row.Integer("vpp").has_value() || StatesArguments(row)) {
    return;
  }
  const bool own_scripts = RunsMegatronLmScripts(row);
  const int64_t most_chunks = own_scripts ? 3 : 12;
  const int64_t layers = job->model.layers / sizes.pp;
  for (int64_t chunks = std::min(most_chunks, layers); chunks > 1; --chunks) {
    if (job->model.layers % sizes.pp == 0 && layers % chunks == 0) {
      sizes.vpp = static_cast<int32_t>(chunks);
      assumptions->Add(own_scripts
                           ? "interleaving: not stated, as Megatron-LM's own runs have it"
                           : "interleaving: not stated, as recipes of Megatron-Core have it",
                       0.04);
      return;
    }
  }
}

// Interleaving needs micro-batches in multiples of pp and layers for every chunk.
void CheckInterleaving(Assumptions* assumptions, graph::JobSpec* job) {
  graph::ParallelSizes& sizes = job->parallel;
  const bool fits =
      job->microbatches() % sizes.pp == 0 && int64_t{sizes.pp} * sizes.vpp <= job->model.layers + 2;
  if (sizes.vpp > 1 && !fits) {
    sizes.vpp = 1;
    assumptions->Add("interleaving: left out, it does not fit batch or layers");
  }
}

// What Megatron's FSDP shards (--data-parallel-sharding-strategy).
constexpr auto kShardingStrategies =
    std::to_array<std::string_view>({"no_shard", "optim", "optim_grads", "optim_grads_params"});

// "3", "zero-3", "zero_3", "zero stage 3", "stage 3".
std::optional<int32_t> NumberedStage(std::string_view text) {
  for (const std::string_view word : {"zero", "stage"}) {
    text.remove_prefix(text.starts_with(word) ? word.size() : 0);
    text.remove_prefix(std::min(text.find_first_not_of(" -_="), text.size()));
  }
  const bool is_stage = !text.empty() && text.front() >= '0' && text.front() <= '3';
  return is_stage ? std::make_optional(text.front() - '0') : std::nullopt;
}

int32_t ZeroStageOfRow(const PublishedRow& row) {
  const std::string text = row.Lower("zero_stage");
  const auto* const strategy =
      std::find(kShardingStrategies.begin(), kShardingStrategies.end(), text);
  if (strategy != kShardingStrategies.end()) {
    return static_cast<int32_t>(strategy - kShardingStrategies.begin());
  }
  if (const std::optional<int32_t> stage = NumberedStage(text)) {
    return *stage;
  }
  if (text.find("no_shard") != std::string::npos || text == "ddp") {
    return 0;
  }
  if (text.find("shard_grad_op") != std::string::npos ||
      text.find("gradients") != std::string::npos) {
    return 2;
  }
  if (text.find("shard") != std::string::npos || text.find("fsdp") != std::string::npos ||
      row.Says("framework", "zero-3") || row.Says("framework", "jax")) {
    return 3;
  }
  const std::optional<bool> column = row.Flag("dist_optimizer");
  if (const std::optional<bool> flag =
          column.has_value() ? column : FlagFor(row, "dist_optimizer")) {
    return *flag ? 1 : 0;
  }
  return row.Says("framework", "nemo") || row.Says("framework", "core") ||
                 row.Says("framework", "nvidia") || row.Says("framework", "megascale")
             ? 1
             : 0;
}

// Megatron-LM has had sequence parallelism and selective recomputation since the same paper
// (Korthikanti et al. 2022).
bool SequenceParallelOfRow(const PublishedRow& row, const graph::JobSpec& job) {
  if (job.parallel.tp == 1) {
    return false;
  }
  const bool early = row.Says("framework", "deepspeed") || row.IsFrom("2020") ||
                     row.IsFrom("sc21") ||
                     (FamilyOfRow(row) == FrameworkFamily::kMegatronLm &&
                      job.recompute == graph::Recompute::kFull);
  return row.Flag("sp").value_or(FlagFor(row, "sp").value_or(!early));
}

// GPT-3, and models of the next two years, had 2,048 tokens; Llama 3 has 8,192.
int64_t UsualLength(const PublishedRow& row) {
  constexpr int64_t kOfGpt3 = 2048;
  constexpr int64_t kOfLlama3 = 8192;
  switch (FamilyOfRow(row)) {
    case FrameworkFamily::kMegatronLm:
    case FrameworkFamily::kMegatronDeepSpeed:
    case FrameworkFamily::kDeepSpeedZero:
    case FrameworkFamily::kMegaScale:
    case FrameworkFamily::kFsdp:
      return kOfGpt3;
    default:
      return kOfLlama3;
  }
}

}  // namespace

Result<graph::JobSpec> JobOfRow(const PublishedRow& row, Assumptions* assumptions) {
  graph::JobSpec job;
  job.name = row.Text("id");
  PRISM_ASSIGN_OR_RETURN(job.model, ModelOfRow(row, assumptions));
  PRISM_ASSIGN_OR_RETURN(job.parallel, SizesOfRow(row, assumptions));
  job.seq_len = job.model.seq_len;
  if (job.seq_len == 0) {
    job.seq_len = job.model.seq_len = UsualLength(row);
    constexpr double kSpread = 0.7;
    assumptions->Add(fmt::format("sequence length: {}", job.seq_len), kSpread);
  }
  PRISM_RETURN_IF_ERROR(ReadBatch(row, assumptions, &job));
  AssumeInterleaving(row, assumptions, &job);
  CheckInterleaving(assumptions, &job);
  job.recompute = RecomputeOfRow(row, job.model, assumptions);
  job.sequence_parallel = SequenceParallelOfRow(row, job);
  job.zero_stage = ZeroStageOfRow(row);
  return job;
}

}  // namespace prism::launch
