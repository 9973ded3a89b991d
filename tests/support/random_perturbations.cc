#include "tests/support/random_perturbations.h"

#include <vector>

#include "tests/support/random_graph.h"
#include "tests/support/test_parameters.h"

namespace prism::testing {
namespace {

using replayer::JitterShape;
using replayer::kJitterShapes;
using replayer::Perturbation;
using replayer::PerturbationKind;

uint64_t Mixed(uint64_t seed) {
  return (seed + 1) * 0x9E3779B97F4A7C15ULL >> 20U;
}

// Slow hosts, devices that are taken away, and all shapes of noise.
void AddFurther(const graph::Graph& graph, uint64_t seed, std::vector<Perturbation>* all) {
  const auto ranks = [&](uint64_t salt) {
    const auto first = static_cast<uint32_t>(Mixed(seed + salt) % graph.ranks.size());
    const auto second = static_cast<uint32_t>(Mixed(seed + salt + 1) % graph.ranks.size());
    return first == second ? std::vector<Rank>{Rank(first)}
                           : std::vector<Rank>{Rank(first), Rank(second)};
  };
  if (seed % 7 == 0) {
    Perturbation host;
    host.kind = PerturbationKind::kHost;
    host.ranks = ranks(1);
    host.factor = 1.7;
    all->push_back(host);
  }
  if (seed % 11 == 0) {
    Perturbation periodic;
    periodic.kind = PerturbationKind::kPeriodic;
    periodic.ranks = ranks(3);
    periodic.period_ns = 20'000'000 + static_cast<DurationNs>(seed % 13) * 7'001;
    periodic.duration_ns = 3'333'333;
    all->push_back(periodic);
    periodic.ranks = ranks(4);
    periodic.period_ns = 170'000'000;
    periodic.duration_ns = 90'000'000;
    all->push_back(periodic);
  }
  if (seed % 13 == 0) {
    Perturbation pause;
    pause.kind = PerturbationKind::kPeriodic;
    pause.ranks = ranks(5);
    pause.period_iterations = static_cast<int32_t>(1 + seed % 2);
    pause.duration_ns = 54'321;
    all->push_back(pause);
  }
  for (uint64_t shape = 0; shape < kJitterShapes; ++shape) {
    if (seed % 17 == shape) {
      Perturbation jitter;
      jitter.kind = PerturbationKind::kJitter;
      jitter.shape = static_cast<JitterShape>(shape);
      jitter.factor = 0.3;
      all->push_back(jitter);
    }
  }
}

}  // namespace

replayer::ReplayOptions RandomPerturbations(const graph::Graph& graph, uint64_t seed) {
  replayer::ReplayOptions options;
  options.iterations = static_cast<int32_t>(1 + seed % 3);
  auto rank = Rank(static_cast<uint32_t>(Mixed(seed) % graph.ranks.size()));
  if (seed % 3 == 0) {
    Perturbation straggler;
    straggler.ranks = {rank};
    straggler.factor = 1.5;
    options.perturbations.push_back(straggler);
  }
  if (seed % 4 == 0) {
    Perturbation late;
    late.kind = PerturbationKind::kLate;
    late.ranks = {rank};
    late.delay_ns = 12'345;
    options.perturbations.push_back(late);
  }
  if (seed % 5 == 0) {
    Perturbation jitter;
    jitter.kind = PerturbationKind::kJitter;
    jitter.factor = 0.1;
    options.perturbations.push_back(jitter);
    options.seed = seed;
  }
  const uint64_t nodes = (graph.ranks.size() + 1) / 2;
  if (seed % 7 == 0 && nodes > 1) {
    Perturbation link;
    link.kind = PerturbationKind::kLink;
    link.node_a = static_cast<int32_t>(Mixed(seed + 1) % nodes);
    const uint64_t apart = 1 + Mixed(seed + 2) % (nodes - 1);
    link.node_b = static_cast<int32_t>((static_cast<uint64_t>(link.node_a) + apart) % nodes);
    link.factor = 2.5;
    options.perturbations.push_back(link);
  }
  AddFurther(graph, seed, &options.perturbations);
  return options;
}

graph::Graph ReplayableGraph(uint64_t seed) {
  graph::Graph graph = RandomGraph(RandomOptions(seed));
  graph.cluster = TestCluster();
  // From "nothing is eager" to "almost everything is".
  graph.cluster.parameters.SetValue("p2p.eager_bytes", seed % 2 == 0 ? 0 : 1 << 20U);
  return graph;
}

}  // namespace prism::testing
