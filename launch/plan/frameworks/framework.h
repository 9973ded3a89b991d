// The frameworks whose iterations we know. Each is described in a source of its own in this folder:
// what its iterations consist of when nothing else is known, as far as that differs from the
// built-in trainer (TrainingStyle{}), and what it cannot do. Other code reads the description; only
// published rows, whose columns mean different things under different frameworks, tell one from
// another. To add one: its source, its profile of host costs in launch/presets/frameworks/, its
// declaration below, and its line in framework.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "launch/plan/assumptions.h"

namespace prism::launch {

// The ratio by which an iteration may be off because tokens are assumed to be dispatched to experts
// by one kernel, as most recipes of Megatron-Core do.
inline constexpr double kDispatchSpread = 0.1;

struct Framework {
  std::string_view name;
  std::string_view profile_name = name;  // where it has none of its own

  // Its defaults for a job of that layout, apart from what ZeRO and the format of matrix products
  // change in all frameworks (StyleOfFramework).
  graph::TrainingStyle (*style)(const graph::JobSpec& job);

  graph::Precision precision = graph::Precision::kBfloat16;  // its usual one
  bool runs_plans = true;    // `prism search --framework` takes it; else for published rows alone
  int32_t last_year = 2025;  // of its published runs, as far as known: what was usual then

  // What it supports.
  bool context_parallelism = true;
  bool interleaving = true;
  int32_t zero = 3;              // stages of ZeRO, at most
  int32_t zero_in_pipeline = 3;  // with several pipeline stages

  // FSDP: a pipeline stage keeps for all its micro-batches what it gathered, so that ZeRO 3 equals
  // ZeRO 2 there; weights of 8-bit layers are kept and gathered in 8 bit.
  bool keeps_gathered_in_pipeline = false;
  bool gathers_8_bit = false;

  // Gradients are accumulated and reduced in fp32 unless weights are in fp16: what Megatron-LM's
  // --bf16 turns on.
  bool sums_fp16_alone_narrowly = false;

  bool operator==(const Framework& other) const { return name == other.name; }
};

extern const Framework kMegatronLm;
extern const Framework kMegatronDeepSpeed;
extern const Framework kDeepSpeedZero;
extern const Framework kMegaScale;
extern const Framework kMegatronCore;
extern const Framework kFsdp;
extern const Framework kTorchtitan;
extern const Framework kNanotron;
extern const Framework kJax;
extern const Framework kHuggingFace;

// All of them; those that run plans in the order in which help texts list them.
std::span<const Framework* const> Frameworks();

// Null for an unknown name.
const Framework* FrameworkNamed(std::string_view name);

// Names that --framework takes.
std::vector<std::string> FrameworkNames();

// The profile of NCCL that was usual when it was, over the current one; "": that is.
std::string NcclOfTime(const Framework& framework);

// Ranks of an expert-parallel group in one node; 0 if nodes divide groups unevenly.
int32_t NodeRanksOfExperts(const graph::ParallelSizes& sizes, int32_t gpus_per_node);

// Whether it shards parameters under every stage of ZeRO: only plans with ZeRO 2 and 3 exist,
// meaning parameters resharded between the passes or not.
bool AlwaysShards(const Framework& framework);

// The framework's defaults for a job of that layout, with its stage of ZeRO.
graph::TrainingStyle StyleOfFramework(const Framework& framework,
                                      graph::Precision precision,
                                      const graph::JobSpec& job);

// Applies Framework::gathers_8_bit: part of StyleOfFramework; call it again for styles that were
// changed to FSDP afterwards.
void GatherNarrowly(const Framework& framework,
                    Assumptions* assumptions,
                    graph::TrainingStyle* style);

// The format that a text names, in any case: "bf16", "MXFP8", "fp8 block"; null if it names none.
std::optional<graph::Precision> PrecisionNamed(std::string_view text);

// Notes the assumption that the format is the usual one.
void NotePrecision(graph::Precision usual, Assumptions* assumptions);

// Notes that partial sums travel between tensor-parallel ranks in 8 bit, if they do.
void NoteNarrowSums(const graph::TrainingStyle& style,
                    const graph::JobSpec& job,
                    Assumptions* assumptions);

}  // namespace prism::launch
