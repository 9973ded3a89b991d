#include "graph/program/job_program.h"

#include <array>

#include "graph/base/check.h"

namespace prism::graph {

const char* GroupAxisName(GroupAxis axis) {
  constexpr std::array<const char*, kGroupAxisCount> kNames = {
      "tp",         "cp",          "dp",        "dp-cp",        "ep",
      "expert-dp",  "tp-ep",       "dp-shard",  "dp-replicate", "pp",
      "pp forward", "pp backward", "embedding", "tp-pp",        "world"};
  const auto index = static_cast<size_t>(axis);
  PRISM_CHECK(index < kNames.size());
  return kNames[index];
}

}  // namespace prism::graph
