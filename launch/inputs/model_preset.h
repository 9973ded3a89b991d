// Models as files: the shape of a transformer and how it is usually trained.
//
// A mixture of experts has a [moe] table (the fields of graph::MoeShape), latent attention a
// [latent_attention] table (those of graph::LatentAttention); `ffn` may be left out if no layer is
// dense. `head_dim`, `sliding_window` and `mtp_layers` are as in graph::ModelSpec.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "graph/job/job.h"

namespace prism::launch {

// How a model is usually trained: the defaults for what the user did not specify.
struct LayoutPreset {
  std::optional<int32_t> tp;
  std::optional<int32_t> pp;
  int32_t vpp = 1;
  int32_t ep = 1;  // upper bound, if fewer ranks hold replicas
  int64_t micro_batch_size = 1;
  int64_t global_batch_size = 0;
  graph::Recompute recompute = graph::Recompute::kNone;
  int32_t zero = 1;
};

struct ModelPreset {
  graph::ModelSpec model;
  LayoutPreset layout;
  std::string description;
};

// A model from its text; `where` is the file's name for messages. kBadFile, naming the line, for a
// shape that no transformer has.
Result<ModelPreset> ParseModel(std::string_view text, const std::string& where);

}  // namespace prism::launch
