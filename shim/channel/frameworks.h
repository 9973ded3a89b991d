// Frameworks that a program may be written with, by a module of theirs that is loaded where they
// train: what the program's Python spends between two ops depends on them.
#pragma once

#include <array>

namespace prism::channel {

struct Framework {
  const char* module;
  const char* name;  // of its host costs: launch/presets/hosts/
};

// The first that is loaded decides: an engine brings in the library of its models, not the reverse.
// What DeepSpeed's ZeRO-3 takes was measured as well (108 us an op), but gives twice the published
// time where the host decides (Qwen3-8B at 1,024 tokens); with Python's it is 13 % short.
inline constexpr std::array<Framework, 5> kFrameworks = {
    {{"deepspeed.runtime.engine", "python"},
     {"megatron.core.parallel_state", "megatron-core"},
     {"transformers.trainer", "transformers"},
     {"transformers.modeling_utils", "transformers"},
     {"accelerate.accelerator", "transformers"}}};

}  // namespace prism::channel
