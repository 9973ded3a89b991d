#include "experiments/published/row_job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "experiments/published/row_arguments.h"
#include "experiments/published/row_style.h"

namespace prism::launch {
namespace {

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
  if (FrameworkOfRow(row) == kTorchtitan && sizes.pp > 1 && row.Is("of 2024") &&
      per_replica % sizes.pp == 0) {
    return per_replica / sizes.pp;  // as many micro-batches as stages, its default until 2025
  }
  if (sizes.pp > 1 || seq_len > 8192) {
    return 1;
  }
  // Tokens of a micro-batch if memory is not tight.
  const int64_t most_tokens = row.Is("own scripts") ? 16384 : 8192;
  const int64_t most = std::max<int64_t>(1, most_tokens / seq_len);
  int64_t size = std::min(most, per_replica);
  while (per_replica % size != 0) {
    --size;
  }
  return size;
}

Status ReadBatch(const PublishedRow& row, graph::JobSpec* job) {
  const int64_t replicas = job->parallel.dp;
  std::optional<int64_t> batch = row.Integer("global_batch");
  const std::optional<int64_t> micro = row.Integer("micro_batch");
  if (!batch.has_value() && !row.Integer("grad_accum").has_value()) {
    if (const std::optional<PublishedRow> like =
            NearestPlan(row, job->parallel.world_size(), "global_batch")) {
      constexpr double kSpread = 0.5;
      row.Assume("batch: not printed, as in the nearest run that prints one", kSpread);
      batch = like->Integer("global_batch");
    }
  }
  if (!batch.has_value() && micro.has_value()) {
    batch = *micro * replicas *
            row.Or<int64_t>(row.Integer("grad_accum"), 1, "micro-batches: 1 a step");
  }
  if (!batch.has_value() || *batch <= 0) {
    return RunFailed("batch is missing");
  }
  job->micro_batch_size = row.Or(micro, UsualMicroBatch(row, job->parallel, job->seq_len, *batch),
                                 "micro-batch: usual", 0.03);
  // If replicas do not get a whole micro-batch: a smaller one, then fewer micro-batches than
  // stated.
  if (job->micro_batch_size * replicas > *batch) {
    job->micro_batch_size = std::max<int64_t>(1, *batch / replicas);
    row.Assume("micro-batch: cut to batch / dp");
  }
  const auto step = static_cast<double>(job->micro_batch_size * replicas);
  const int64_t count = std::max<int64_t>(1, std::llround(static_cast<double>(*batch) / step));
  job->global_batch_size = count * job->micro_batch_size * replicas;
  if (job->global_batch_size != *batch) {
    const double ratio = static_cast<double>(job->global_batch_size) / static_cast<double>(*batch);
    row.Assume("batch: rounded to whole micro-batches", std::abs(std::log(ratio)));
  }
  return OkStatus();
}

// Recipes of Megatron-Core interleave whenever there is a pipeline, in chunks of one or few layers;
// Megatron-LM's own runs that say so (SC21, Korthikanti et al.) have at most three chunks per
// stage.
void AssumeInterleaving(const PublishedRow& row, graph::JobSpec* job) {
  graph::ParallelSizes& sizes = job->parallel;
  if (FrameworkOfRow(row) == kTorchtitan && sizes.pp > 1 && row.Is("interleaved") &&
      !row.Integer("vpp").has_value()) {
    sizes.vpp = 2;
    row.Assume("interleaving: two stages a rank, as torchtitan has it", 0.04);
    return;
  }
  if (row.Is("llama 3 code") && sizes.pp > 1 && !row.Integer("vpp").has_value()) {
    constexpr int64_t kEnds = 2;  // the first and the last stage have one layer less
    sizes.vpp = static_cast<int32_t>(std::max<int64_t>(1, (job->model.layers + kEnds) / sizes.pp));
    row.Assume("interleaving: chunks of one layer, as Llama 3 was trained", 0.1);
    return;
  }
  if (FrameworkOfRow(row) == kNanotron && sizes.vpp > 1) {
    sizes.vpp = 1;
    row.Assume("interleaving: left out, nanotron has none");
    return;
  }
  // Megatron-Bridge's tables state it if there is any.
  const bool recipe = FrameworkOfRow(row) == kMegatronCore && !row.Is("bridge");
  if (!recipe || sizes.pp == 1 || row.Integer("vpp").has_value() || StatesArguments(row)) {
    return;
  }
  const bool own_scripts = row.Is("own scripts");
  const int64_t most_chunks = own_scripts ? 3 : 12;
  const int64_t layers = job->model.layers / sizes.pp;
  for (int64_t chunks = std::min(most_chunks, layers); chunks > 1; --chunks) {
    if (job->model.layers % sizes.pp == 0 && layers % chunks == 0) {
      sizes.vpp = static_cast<int32_t>(chunks);
      row.Assume(own_scripts ? "interleaving: not stated, as Megatron-LM's own runs have it"
                             : "interleaving: not stated, as recipes of Megatron-Core have it",
                 0.04);
      return;
    }
  }
}

// Interleaving needs micro-batches in multiples of pp and layers for every chunk.
void CheckInterleaving(const PublishedRow& row, graph::JobSpec* job) {
  graph::ParallelSizes& sizes = job->parallel;
  const bool fits =
      job->microbatches() % sizes.pp == 0 && int64_t{sizes.pp} * sizes.vpp <= job->model.layers + 2;
  if (sizes.vpp > 1 && !fits) {
    sizes.vpp = 1;
    row.Assume("interleaving: left out, it does not fit batch or layers");
  }
}

// "3", "zero-3", "zero_3", "zero stage 3", "stage 3".
std::optional<int32_t> NumberedStage(std::string_view text) {
  for (const std::string_view word : {"zero", "stage"}) {
    text.remove_prefix(text.starts_with(word) ? word.size() : 0);
    text.remove_prefix(std::min(text.find_first_not_of(" -_="), text.size()));
  }
  const std::string_view number = text.substr(0, text.find_first_of(" ,;/+-_()"));
  const bool is_stage = number.size() == 1 && number.front() >= '0' && number.front() <= '3';
  return is_stage ? std::make_optional(number.front() - '0') : std::nullopt;
}

int32_t ZeroStageOfRow(const PublishedRow& row) {
  if (const std::optional<int32_t> stated = StatedZeroStage(row)) {
    return *stated;
  }
  if (!row.IsSilent("zero_stage")) {
    constexpr double kSpread = 0.1;
    row.Assume(
        fmt::format("zero_stage: '{}' is not known, taken as not stated", row.Lower("zero_stage")),
        kSpread);
  }
  const auto usual = static_cast<int32_t>(row.Meant("usual zero").value_or(0));
  const std::optional<bool> column = row.Flag("dist_optimizer");
  const std::optional<bool> flag = column.has_value() ? column : FlagFor(row, "dist_optimizer");
  return usual == 3 || !flag.has_value() ? usual : (*flag ? 1 : 0);
}

// Megatron-LM has had sequence parallelism and selective recomputation since the same paper
// (Korthikanti et al. 2022).
bool SequenceParallelOfRow(const PublishedRow& row, const graph::JobSpec& job) {
  if (job.parallel.tp == 1) {
    return false;
  }
  const bool early = row.Is("before 2022") || (FrameworkOfRow(row) == kMegatronLm &&
                                               job.recompute == graph::Recompute::kFull);
  return row.Flag("sp").value_or(FlagFor(row, "sp").value_or(!early));
}

// GPT-3, and models of the next two years, had 2,048 tokens; Llama 3 has 8,192.
int64_t UsualLength(const PublishedRow& row) {
  constexpr int64_t kOfGpt3 = 2048;
  constexpr int64_t kOfLlama3 = 8192;
  return FrameworkOfRow(row).last_year < 2025 ? kOfGpt3 : kOfLlama3;
}

}  // namespace

std::optional<int32_t> StatedZeroStage(const PublishedRow& row) {
  const std::optional<int32_t> number = NumberedStage(row.Lower("zero_stage"));
  const std::optional<int64_t> named = row.Meant("zero");
  return number.has_value() || !named.has_value() ? number
                                                  : std::optional(static_cast<int32_t>(*named));
}

Result<graph::JobSpec> JobOfRow(const PublishedRow& row) {
  graph::JobSpec job;
  job.name = row.Text("id");
  PRISM_ASSIGN_OR_RETURN(job.model, ModelOfRow(row));
  PRISM_ASSIGN_OR_RETURN(job.parallel, SizesOfRow(row));
  job.seq_len = job.model.seq_len;
  if (job.seq_len == 0) {
    job.seq_len = job.model.seq_len = UsualLength(row);
    constexpr double kSpread = 0.7;
    row.Assume(fmt::format("sequence length: {}", job.seq_len), kSpread);
  }
  PRISM_RETURN_IF_ERROR(ReadBatch(row, &job));
  AssumeInterleaving(row, &job);
  CheckInterleaving(row, &job);
  job.recompute = RecomputeOfRow(row, job.model);
  job.sequence_parallel = SequenceParallelOfRow(row, job);
  job.zero_stage = ZeroStageOfRow(row);
  return job;
}

}  // namespace prism::launch
