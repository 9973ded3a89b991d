#include "launch/analyse/iteration_samples.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/rng.h"
#include "launch/process/distribute.h"
#include "launch/process/wire.h"
#include "replayer/replay.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"

namespace prism::launch {

DurationNs IterationSamples::Percentile(int percent) const {
  const auto count = static_cast<int64_t>(iteration_ns.size());
  const int64_t not_exceeding = std::max<int64_t>(1, (count * percent + 99) / 100);
  return iteration_ns[static_cast<size_t>(not_exceeding - 1)];
}

Result<IterationSamples> SampleIterations(MpiSession& session,
                                          const graph::Graph& graph,
                                          replayer::ReplayOptions options,
                                          int64_t count) {
  const bool random =
      std::ranges::any_of(options.perturbations, [](const replayer::Perturbation& perturbation) {
        return perturbation.kind == replayer::PerturbationKind::kJitter;
      });
  if (!random) {
    return InvalidArgument(
        "--samples needs noise, else all are the same; add --perturb jitter:FRACTION");
  }
  options.breakdown = false;
  Rng generator(options.seed, "samples");
  std::vector<uint64_t> seeds;
  for (int64_t i = 0; i < count; ++i) {
    seeds.push_back(generator.Next());
  }
  const int threads = DefaultThreads(session);
  options.threads = count < threads ? options.threads : 1;
  const auto sample = [&](int64_t i) -> Result<std::string> {
    replayer::ReplayOptions seeded = options;
    seeded.seed = seeds[static_cast<size_t>(i)];
    PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, seeded));
    return WireWriter().Put(result.steady_iteration_ns()).Take();
  };
  PRISM_ASSIGN_OR_RETURN(const std::vector<std::string> results,
                         DistributeItems(session, count, threads, sample));
  IterationSamples samples;
  for (const std::string& bytes : results) {
    samples.iteration_ns.push_back(WireReader(bytes).Get<DurationNs>());
  }
  std::ranges::sort(samples.iteration_ns);
  return samples;
}

std::string SamplesText(const IterationSamples& samples,
                        const std::vector<graph::Warning>& warnings,
                        OutputFormat format) {
  const auto seconds = [&](int percent) { return SecondsFromNs(samples.Percentile(percent)); };
  if (format == OutputFormat::kText) {
    const auto text_of = [&](int percent) { return replayer::FineSeconds(seconds(percent)); };
    return fmt::format("iteration time of {} samples: p50 {}, p90 {}, p99 {} ({} to {})\n",
                       samples.iteration_ns.size(), text_of(50), text_of(90), text_of(99),
                       text_of(0), text_of(100)) +
           (warnings.empty() ? "" : replayer::WarningLines(warnings));
  }
  return JsonText([&](JsonWriter& json) {
    json.Field("samples", static_cast<int64_t>(samples.iteration_ns.size()));
    json.Key("iteration_s").BeginObject();
    json.Field("p50", seconds(50)).Field("p90", seconds(90)).Field("p99", seconds(99));
    json.Field("min", seconds(0)).Field("max", seconds(100));
    json.EndObject();
    replayer::WriteWarnings(warnings, &json);
  });
}

}  // namespace prism::launch
