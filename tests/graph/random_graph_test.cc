// The generator of the property tests keeps its promise: every graph that it draws can run.
#include "tests/support/random_graph.h"

#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "graph/validate/validate.h"

namespace prism::testing {
namespace {

RC_GTEST_PROP(RandomGraphProperty, drawn_graphs_are_valid, (uint64_t seed)) {
  const graph::Validation validation = graph::Validate(RandomGraph(RandomOptions(seed)));
  for (const graph::Fault& fault : validation.faults) {
    RC_LOG() << fault.rule << ": " << fault.message << "\n";
  }
  RC_ASSERT(validation.ok());
}

TEST(RandomGraphs, draws_every_kind_of_op) {
  std::set<graph::OpKind> kinds;
  const graph::Graph graph = RandomGraph({.seed = 1, .events = 2000});
  for (const graph::Role& role : graph.roles) {
    kinds.insert(role.program.kind.begin(), role.program.kind.end());
  }
  EXPECT_EQ(kinds.size(), graph::kOpKindCount);
}

TEST(RandomGraphs, seed_decides_the_graph) {
  EXPECT_EQ(RandomGraph({.seed = 1}), RandomGraph({.seed = 1}));
  EXPECT_NE(RandomGraph({.seed = 1}), RandomGraph({.seed = 2}));
}

}  // namespace
}  // namespace prism::testing
