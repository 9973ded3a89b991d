#include "launch/verbs/iteration_samples.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/rng.h"

namespace prism::launch {

DurationNs IterationSamples::Percentile(int percent) const {
  const auto count = static_cast<int64_t>(iteration_ns.size());
  const int64_t not_exceeding = std::max<int64_t>(1, (count * percent + 99) / 100);
  return iteration_ns[static_cast<size_t>(not_exceeding - 1)];
}

Result<IterationSamples> SampleIterations(const graph::Graph& graph,
                                          replayer::ReplayOptions options,
                                          int64_t count) {
  const bool random = std::any_of(options.perturbations.begin(), options.perturbations.end(),
                                  [](const replayer::Perturbation& perturbation) {
                                    return perturbation.kind == replayer::PerturbationKind::kJitter;
                                  });
  if (!random) {
    return InvalidArgument(
        "--samples without noise: all would be the same; add --perturb jitter:FRACTION");
  }
  options.breakdown = false;
  Rng seeds(options.seed, "samples");
  IterationSamples samples;
  for (int64_t i = 0; i < count; ++i) {
    options.seed = seeds.Next();
    PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, options));
    samples.iteration_ns.push_back(result.steady_iteration_ns());
  }
  std::sort(samples.iteration_ns.begin(), samples.iteration_ns.end());
  return samples;
}

std::string SamplesText(const IterationSamples& samples, OutputFormat format) {
  const auto seconds = [&](int percent) { return SecondsFromNs(samples.Percentile(percent)); };
  if (format == OutputFormat::kText) {
    return fmt::format(
        "iteration time of {} samples: p50 {:.6f} s, p90 {:.6f} s, p99 {:.6f} s ({:.6f} to "
        "{:.6f} s)\n",
        samples.iteration_ns.size(), seconds(50), seconds(90), seconds(99), seconds(0),
        seconds(100));
  }
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("samples", static_cast<int64_t>(samples.iteration_ns.size()));
  json.Key("iteration_s").BeginObject();
  json.Field("p50", seconds(50)).Field("p90", seconds(90)).Field("p99", seconds(99));
  json.Field("min", seconds(0)).Field("max", seconds(100));
  json.EndObject().EndObject();
  return text + "\n";
}

}  // namespace prism::launch
