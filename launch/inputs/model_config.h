// Models as Hugging Face files: config.json of transformers, as it is.
//
// One table says which architectures are known and what they are made of; what a file leaves out
// has the value that transformers gives it. Whatever the description of a model cannot say is an
// assumption of the preset, and keys that nobody knows are listed in it: none is passed over in
// silence but those without influence on time and memory (names of tokens, epsilons, scales).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "launch/inputs/model_preset.h"

namespace prism::launch {

// Whether a model's text is JSON, not TOML.
bool IsModelConfig(std::string_view text);

// ModelPreset::unknown_keys for a message: the first ones, and how many more there are.
std::string ListOf(const std::vector<std::string>& keys);

// `where` is the file's path: the model is called what its folder is. kBadFile, naming the key, for
// an architecture that is not known or a shape that no transformer has.
Result<ModelPreset> ParseModelConfig(std::string_view text, const std::string& where);

}  // namespace prism::launch
