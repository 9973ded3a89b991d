// How a current framework runs a plan: its defaults (launch/plan/framework.h), as for a
// published run that states nothing else.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "launch/plan/framework.h"

namespace prism::launch {

// Names that --framework takes.
const std::vector<std::string>& FrameworkNames();

// Names that --precision takes.
const std::vector<std::string>& PrecisionNames();

// Whether it always shards parameters (FSDP): only plans with ZeRO 2 and 3 exist, meaning
// parameters resharded between the passes or not. `framework`: one of FrameworkNames().
bool AlwaysShards(const std::string& framework);

// Whether its pipeline stages keep the parameters that they gathered: ZeRO 3 then equals ZeRO 2.
bool KeepsGatheredInPipeline(const std::string& framework);

// What a framework supports.
struct FrameworkReach {
  bool context_parallelism = true;
  bool interleaving = true;
  int32_t zero = 3;              // stages of ZeRO, at most
  int32_t zero_in_pipeline = 3;  // with several pipeline stages
};

// Megatron-LM of 2020 to 2022 has no context parallelism and shards only optimizer states (arXiv
// 2205.05198; its releases up to 3.0); the same holds for nanotron, which also has no interleaving;
// DeepSpeed's pipeline engine has no interleaving and refuses ZeRO 2 and 3 (its PipelineEngine).
FrameworkReach ReachOfFramework(const std::string& framework);

// Whether it can distribute the job's layers over its model chunks.
bool DealsOutLayers(const std::string& framework, const graph::JobSpec& job);

class FrameworkStyle {
 public:
  // `precision`: "bf16", "fp16", "fp8", ...; empty: the framework's usual one. kInvalidArgument for
  // an unknown framework or precision.
  static Result<FrameworkStyle> Create(const std::string& framework, const std::string& precision);

  // The profile with its host costs: "megatron-core" in frameworks/.
  [[nodiscard]] std::string HostProfile() const { return FrameworkName(family_); }

  // The style depends only on the job's ZeRO and sequence parallelism, on whether tp, vpp and pp
  // are 1, and on whether the model has experts and latent attention.
  [[nodiscard]] const graph::TrainingStyle& Of(const graph::JobSpec& job) const;

  // Jobs with the same number have the same kernels in a layer, as far as the style determines
  // them.
  [[nodiscard]] uint32_t LayerStyleOf(const graph::JobSpec& job) const {
    return layer_styles_[KindOf(job)];
  }

  // What was assumed about it, one line each.
  [[nodiscard]] std::vector<std::string> Assumptions(const graph::JobSpec& job) const;

 private:
  FrameworkStyle(FrameworkFamily family, const std::string& precision);

  static size_t KindOf(const graph::JobSpec& job);

  FrameworkFamily family_;
  graph::Precision precision_;
  bool usual_precision_ = false;
  std::vector<graph::TrainingStyle> styles_;  // by kind of job
  std::vector<uint32_t> layer_styles_;        // likewise
};

}  // namespace prism::launch
