// Jobs that differ from a plain one in one field each.
#pragma once

#include <string>
#include <vector>

#include "graph/job/job.h"

namespace prism::testing {

struct ChangedJob {
  std::string field;  // as DiffGraphs names it, without "job."
  graph::JobSpec job;
};

// One change for each field that defines a job; the plain job is JobSpec{}.
inline std::vector<ChangedJob> ChangedJobs() {
  using graph::JobSpec;
  struct Change {
    const char* field;
    void (*make)(JobSpec&);
  };
  const Change changes[] = {
      {"name", [](JobSpec& job) { job.name = "other"; }},
      {"user_program", [](JobSpec& job) { job.user_program = true; }},
      {"model", [](JobSpec& job) { job.model.name = "other"; }},
      {"block", [](JobSpec& job) { job.model.block = graph::BlockKind::kNemotron; }},
      {"layers", [](JobSpec& job) { job.model.layers = 1; }},
      {"hidden", [](JobSpec& job) { job.model.hidden = 2; }},
      {"heads", [](JobSpec& job) { job.model.heads = 3; }},
      {"kv_heads", [](JobSpec& job) { job.model.kv_heads = 4; }},
      {"ffn", [](JobSpec& job) { job.model.ffn = 5; }},
      {"vocab", [](JobSpec& job) { job.model.vocab = 6; }},
      {"tied_embeddings", [](JobSpec& job) { job.model.tied_embeddings = false; }},
      {"head_dim", [](JobSpec& job) { job.model.head_dim = 7; }},
      {"sliding_window", [](JobSpec& job) { job.model.sliding_window = 8; }},
      {"experts", [](JobSpec& job) { job.model.moe.experts = 9; }},
      {"moe_topk", [](JobSpec& job) { job.model.moe.topk = 10; }},
      {"expert_ffn", [](JobSpec& job) { job.model.moe.expert_ffn = 11; }},
      {"shared_expert_ffn", [](JobSpec& job) { job.model.moe.shared_expert_ffn = 12; }},
      {"dense_layers", [](JobSpec& job) { job.model.moe.dense_layers = 13; }},
      {"expert_biases", [](JobSpec& job) { job.model.moe.biased = true; }},
      {"latent_q_rank", [](JobSpec& job) { job.model.latent.q_rank = 14; }},
      {"latent_kv_rank", [](JobSpec& job) { job.model.latent.kv_rank = 15; }},
      {"latent_rope_dim", [](JobSpec& job) { job.model.latent.rope_dim = 16; }},
      {"latent_value_dim", [](JobSpec& job) { job.model.latent.value_dim = 17; }},
      {"mtp_layers", [](JobSpec& job) { job.model.mtp_layers = 18; }},
      {"tp", [](JobSpec& job) { job.parallel.tp = 2; }},
      {"cp", [](JobSpec& job) { job.parallel.cp = 3; }},
      {"dp", [](JobSpec& job) { job.parallel.dp = 4; }},
      {"pp", [](JobSpec& job) { job.parallel.pp = 5; }},
      {"ep", [](JobSpec& job) { job.parallel.ep = 6; }},
      {"vpp", [](JobSpec& job) { job.parallel.vpp = 7; }},
      {"etp", [](JobSpec& job) { job.parallel.etp = 8; }},
      {"sequence_parallel", [](JobSpec& job) { job.sequence_parallel = false; }},
      {"micro_batch_size", [](JobSpec& job) { job.micro_batch_size = 9; }},
      {"global_batch_size", [](JobSpec& job) { job.global_batch_size = 10; }},
      {"seq_len", [](JobSpec& job) { job.seq_len = 11; }},
      {"recompute", [](JobSpec& job) { job.recompute = graph::Recompute::kFull; }},
      {"zero", [](JobSpec& job) { job.zero_stage = 3; }},
      {"dtype", [](JobSpec& job) { job.compute_dtype = DataType::kFloat16; }},
      {"seed", [](JobSpec& job) { job.seed = 12; }},
      {"warmup_iterations", [](JobSpec& job) { job.facts.warmup_iterations = 13; }},
      {"iteration_begin", [](JobSpec& job) { job.facts.iteration_begin = "a step"; }},
      {"steps_per_iteration", [](JobSpec& job) { job.facts.steps_per_iteration = 14; }},
  };
  std::vector<ChangedJob> jobs;
  for (const Change& change : changes) {
    jobs.push_back({change.field, JobSpec{}});
    change.make(jobs.back().job);
  }
  return jobs;
}

}  // namespace prism::testing
