// A graph of one kernel, for what a kernel costs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "tests/support/test_parameters.h"

namespace prism::testing {

inline constexpr DurationNs kGap = 700;  // gpu.kernel_gap_ns of TestCluster; so is the floor

// A graph with one signature: framework op, kernel and inputs as given.
inline graph::Graph OneKernel(const std::string& framework_op,
                              const std::string& kernel,
                              std::vector<graph::TensorShape> inputs) {
  graph::Graph graph;
  graph.cluster = TestCluster();
  graph.strings = {"", framework_op, kernel};
  graph.signatures.resize(1);
  graph.signatures[0].framework_op = StringId(1);
  graph.signatures[0].name = StringId(2);
  graph.signatures[0].inputs = std::move(inputs);
  return graph;
}

}  // namespace prism::testing
