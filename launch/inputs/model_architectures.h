// The architectures of transformers that a config.json may name: one row says what a type has that
// its keys do not say, as transformers implements it. Another type of the same kind is one more
// row, and a published file of it with its number of parameters in tests/launch/inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/job/job.h"

namespace prism::launch {

enum Trait : uint32_t {
  kPlain = 0,
  kTied = 1U << 0U,               // words, unless tie_word_embeddings says otherwise
  kBiased = 1U << 1U,             // queries, keys and values, unless attention_bias says otherwise
  kWholeBias = 1U << 2U,          // attention_bias means the output projection as well
  kHeadNorms = 1U << 3U,          // norms of queries and keys, as wide as a head
  kWideNorms = 1U << 4U,          // the same, as wide as all heads
  kFourNorms = 1U << 5U,          // norms before and after attention and feed-forward
  kWindowed = 1U << 6U,           // sliding_window counts in all layers
  kEverySecond = 1U << 7U,        // ... in every second one
  kFiveOfSix = 1U << 8U,          // ... in five of six
  kSinks = 1U << 9U,              // a sink for each head
  kBiasedExperts = 1U << 10U,     // router and experts have biases
  kSharedGate = 1U << 11U,        // a gate of the shared expert
  kSharedIsExpert = 1U << 12U,    // the shared expert is as wide as a routed one
  kNormsByKey = 1U << 13U,        // use_qk_norm says whether it has kHeadNorms
  kTwoMorePositions = 1U << 14U,  // learned ones
  kCorrectedRouters = 1U << 15U   // routers have biases that balance the load
};

struct Architecture {
  std::string_view type;   // model_type
  std::string_view model;  // of architectures
  graph::BlockKind block = graph::BlockKind::kLlama;
  uint32_t traits = kPlain;
};

// By model_type, else by the first of the file's `architectures`; null if neither is known.
const Architecture* FindArchitecture(std::string_view type, std::string_view model);
std::vector<std::string_view> ArchitectureTypes();

// What transformers takes where a file of the type leaves the key out; null: it must be there, or
// follows from other keys.
std::optional<int64_t> DefaultOf(const Architecture& architecture, std::string_view key);

// Keys without influence on time and memory, as far as a model's description goes.
bool IsIgnoredKey(std::string_view key);

}  // namespace prism::launch
