// Models as files: the shape of a transformer and how it is usually trained.
//
// A file of Hugging Face's is read as it is (launch/inputs/model_config.h).
//
// A mixture of experts has a [moe] table (the fields of graph::MoeShape), latent attention a
// [latent_attention] table (those of graph::LatentAttention); `ffn` may be left out if no layer is
// dense. `head_dim`, `sliding_window` and `mtp_layers` are as in graph::ModelSpec. What the model
// has beyond that is said in `assumptions`, and its number of elements in `uncounted_parameters`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  int64_t uncounted_parameters = 0;       // of the published model, beyond graph::ModelParameters
  std::vector<std::string> assumptions;   // where the description differs from the published model
  std::vector<std::string> unknown_keys;  // of a Hugging Face file, that may matter

  // Of the published model.
  [[nodiscard]] int64_t Parameters() const {
    return graph::ModelParameters(model) + uncounted_parameters;
  }
};

constexpr int64_t kMaxLayers = 100'000;
constexpr int64_t kMaxLength = int64_t{1} << 30;
// Parameter counts then stay within int64.
constexpr int64_t kMaxWidth = int64_t{1} << 21;

// What is wrong with the shape as a whole; "" if nothing.
std::string ModelFault(const graph::ModelSpec& model, const LayoutPreset& layout);

// A model from its text; `where` is the file's name for messages. kBadFile, naming the line, for a
// shape that no transformer has.
Result<ModelPreset> ParseModel(std::string_view text, const std::string& where);

}  // namespace prism::launch
