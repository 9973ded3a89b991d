#include "replayer/report/json.h"

#include <utility>

#include "graph/describe.h"
#include "graph/job/whole_program.h"

namespace prism::replayer {
namespace {

void WritePhases(const std::vector<Phase>& phases, JsonWriter* json) {
  if (phases.empty()) {
    json->NullField("phases");
    return;
  }
  json->ObjectsField("phases", phases, [&](const Phase& phase) {
    json->Field("name", phase.name).Field("count", phase.count);
    json->Field("seconds", phase.seconds);
  });
}

void WriteTimes(const Summary& summary, JsonWriter* json) {
  json->Field("iteration_time_s", summary.iteration_time_s);
  json->Field("iteration_time_low_s", summary.iteration_time_low_s);
  json->Field("iteration_time_high_s", summary.iteration_time_high_s);
  json->OptionalField("mean_iteration_time_s", summary.mean_iteration_time_s);
  json->ObjectsField("odd_iterations", summary.odd_iterations, [&](const OddIteration& odd) {
    json->Field("kind", odd.kind).Field("count", odd.count);
    json->OptionalField("seconds", odd.seconds);
    odd.every ? json->Field("every", *odd.every) : json->NullField("every");
  });
  WritePhases(summary.phases, json);
  json->OptionalField("tokens_per_s", summary.tokens_per_s);
  json->OptionalField("model_tflops_per_gpu", summary.model_tflops_per_gpu);
  json->OptionalField("mfu", summary.mfu);
  json->OptionalField("hfu", summary.hfu);
  json->Key("breakdown").BeginObject();
  json->Field("compute", summary.breakdown.compute);
  json->Field("exposed_comm", summary.breakdown.exposed_comm);
  json->Field("bubble", summary.breakdown.bubble);
  json->Field("idle", summary.breakdown.idle);
  json->EndObject();
}

void WriteMemoryAndGraph(const Summary& summary, JsonWriter* json) {
  WritePeakMemory(summary.peak_memory, json);
  json->Key("graph").BeginObject();
  json->Field("ops", summary.graph.ops);
  json->Field("roles", summary.graph.roles);
  json->Field("communicators", summary.graph.communicators);
  json->Field("bytes", summary.graph.bytes);
  json->EndObject();
}

}  // namespace

void WritePeakMemory(const PeakMemory& peak, JsonWriter* json) {
  json->Key("peak_memory").BeginObject();
  peak.is_known() ? json->Field("rank", peak.rank.value()) : json->NullField("rank");
  for (const auto& [key, bytes] : {std::pair("allocated_bytes", peak.allocated_bytes),
                                   std::pair("reserved_bytes", peak.reserved_bytes),
                                   std::pair("device_bytes", peak.device_bytes)}) {
    peak.is_known() ? json->Field(key, bytes) : json->NullField(key);
  }
  json->EndObject();
}

void WriteJob(const graph::JobSpec& job, std::optional<double> model_params, JsonWriter* json) {
  json->Key("job").BeginObject();
  json->Field("name", job.name);
  json->Field("target_gpus", job.parallel.world_size());
  json->Field("tp", job.parallel.tp);
  json->Field("pp", job.parallel.pp);
  json->Field("dp", job.parallel.dp);
  json->Field("cp", job.parallel.cp);
  json->Field("ep", job.parallel.ep);
  const bool batch_is_known = job.seq_len > 0;  // not known of a user's program
  graph::KnowsChunks(job) ? json->Field("vpp", job.parallel.vpp) : json->NullField("vpp");
  const auto of_batch = [&](const char* key, int64_t value) {
    batch_is_known ? json->Field(key, value) : json->NullField(key);
  };
  of_batch("micro_batch_size", job.micro_batch_size);
  of_batch("global_batch_size", job.global_batch_size);
  of_batch("seq_len", job.seq_len);
  of_batch("microbatches", job.microbatches());
  if (model_params) {
    json->Field("model_params", static_cast<int64_t>(*model_params));
  } else {
    json->NullField("model_params");
  }
  const bool steps_are_known = job.facts.steps_per_iteration != graph::kWholeProgram &&
                               (!job.user_program || !job.facts.iteration_begin.empty());
  steps_are_known ? json->Field("steps_per_iteration", job.facts.steps_per_iteration)
                  : json->NullField("steps_per_iteration");
  json->EndObject();
}

void WriteWarnings(const std::vector<graph::Warning>& warnings, JsonWriter* json) {
  json->ObjectsField("warnings", warnings, [&](const graph::Warning& warning) {
    json->Field("code", warning.code);
    json->Field("count", warning.count);
    json->Field("example", warning.example);
  });
}

void WriteSummary(const Summary& summary, JsonWriter* json) {
  json->BeginObject();
  WriteJob(summary.job, summary.model_params, json);
  json->Key("cluster").BeginObject();
  json->Field("name", summary.cluster);
  json->Field("gpu", summary.gpu);
  json->Field("gpus_per_node", summary.gpus_per_node);
  json->EndObject();
  json->Field("device", summary.device);
  json->OptionalField("device_scale", summary.device_scale);
  const std::string& torch = summary.job.facts.torch;
  json->OptionalField("torch", torch.empty() ? std::nullopt : std::optional(torch));
  const std::string& checked = summary.job.facts.checked;
  json->Field("checked", checked.empty() ? "off" : checked);
  WriteTimes(summary, json);
  WriteMemoryAndGraph(summary, json);
  json->ArrayField("sandbox_ranks", summary.sandbox_ranks, &Rank::value);
  WriteWarnings(summary.warnings, json);
  json->ArrayField("assumptions", summary.assumptions);
  if (!summary.imbalance.empty()) {
    json->ObjectsField("imbalance", summary.imbalance, [&](const Imbalance& uneven) {
      json->Field("communicator", uneven.communicator).Field("ratio", uneven.ratio);
      json->Field("rank", uneven.slowest.value()).Field("straggler", uneven.is_straggler);
    });
  }
  if (summary.assumed_ranks > 0) {
    json->Field("assumed_ranks", summary.assumed_ranks);
  }
  json->EndObject();
}

std::string SummaryJson(const Summary& summary) {
  std::string text;
  JsonWriter json(&text);
  WriteSummary(summary, &json);
  return text + "\n";
}

}  // namespace prism::replayer
