// What would shorten the iteration, as text and JSON.
#pragma once

#include <string>

#include "graph/base/json_writer.h"
#include "replayer/what_matters.h"

namespace prism::replayer {

// "kernels matmul", "host of stage 3".
std::string TitleOf(const JobPart& part);

// "nothing" or "longer"; "" for a part that saves time.
const char* EffectOf(const FasterPart& faster);

std::string WhatMattersText(const WhatMatters& matters);

// The keys what_matters and left_out, in an object that is open.
void WriteWhatMatters(const WhatMatters& matters, JsonWriter* json);

}  // namespace prism::replayer
