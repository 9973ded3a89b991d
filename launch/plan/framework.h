// Frameworks by what their iterations consist of: names, the usual format of matrix products, and
// the style of a job about which nothing else is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "launch/plan/assumptions.h"

namespace prism::launch {

// The ratio by which an iteration may be off because tokens are assumed to be dispatched to experts
// by one kernel, as most recipes of Megatron-Core do.
inline constexpr double kDispatchSpread = 0.1;

enum class FrameworkFamily : uint8_t {
  kMegatronLm,         // Megatron-LM up to 2022
  kMegatronDeepSpeed,  // Megatron-LM's layers under DeepSpeed's engine
  kDeepSpeedZero,      // ZeRO-3 alone
  kMegaScale,
  kMegatronCore,  // with Transformer Engine: NeMo, Megatron-Bridge, MLPerf submissions
  kFsdp,          // PyTorch FSDP: llm-foundry
  kTorchtitan,
  kNanotron,
  kJax,
  kHuggingFace,
};

// TrainingStyle::framework of the family, which is also the name of its profile of parameters under
// launch/presets/frameworks/: "megatron-lm".
std::string FrameworkName(FrameworkFamily family);

// The format that a text names, in any case: "bf16", "MXFP8", "fp8 block"; null if it names none.
std::optional<graph::Precision> PrecisionNamed(std::string_view text);

// The framework's default format.
graph::Precision UsualPrecision(FrameworkFamily family);

// Notes the assumption that the format is the usual one.
void NotePrecision(graph::Precision usual, Assumptions* assumptions);

// The framework's defaults for a job of that layout.
graph::TrainingStyle StyleOfFramework(FrameworkFamily family,
                                      graph::Precision precision,
                                      const graph::JobSpec& job);

// Megatron-Core's FSDP keeps and gathers the weights of 8-bit layers in 8 bit: part of
// StyleOfFramework; call it again for styles that were changed to FSDP afterwards.
void GatherNarrowly(FrameworkFamily family, Assumptions* assumptions, graph::TrainingStyle* style);

// Notes that partial sums travel between tensor-parallel ranks in 8 bit, if they do.
void NoteNarrowSums(const graph::TrainingStyle& style,
                    const graph::JobSpec& job,
                    Assumptions* assumptions);

}  // namespace prism::launch
