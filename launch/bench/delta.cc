// `prism bench replay --delta N`: replays after edits of one op against full replays, in seconds of
// CPU time.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/rng.h"
#include "launch/bench/bench.h"
#include "launch/process/stop_watch.h"
#include "replayer/delta/delta_replay.h"

namespace prism::launch {
namespace {

using replayer::DeltaReplay;
using replayer::DeltaResult;
using replayer::Edit;
using replayer::EditedJob;
using replayer::ReplayResult;

// A random op of a random rank takes half to twice as long; on its whole role if `whole_role`.
Edit DrawEdit(const graph::Graph& graph, bool whole_role, Rng* rng) {
  const auto rank = Rank(static_cast<uint32_t>(rng->UniformInt(0, graph.ranks.size() - 1)));
  replayer::ProgramEdit edit;
  edit.role = graph.ranks.role[rank.value()];
  if (!whole_role) {
    edit.ranks = {rank};
  }
  const graph::Program& program = graph.roles[edit.role].program;
  uint32_t op = 0;
  do {
    op = static_cast<uint32_t>(rng->UniformInt(0, program.size() - 1));
  } while (program.kind[op] != graph::OpKind::kKernel);
  const double factor = 0.5 + 1.5 * rng->UniformReal();
  edit.durations = {{op, static_cast<DurationNs>(factor * static_cast<double>(program.value[op]))}};
  return {{std::move(edit)}, {}, {}, {}};
}

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Least(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

// What some edits came to.
struct EditTimes {
  std::vector<double> delta_s;
  std::vector<double> ratios;           // full over delta
  std::vector<double> absorbed_ratios;  // of edits that reached no other rank
  std::vector<double> unfelt_ratios;    // of edits that did not change the iteration time
  double full_s = 0;
  int64_t equal = 0;
  int64_t executed = 0;
  int64_t given_up = 0;  // replayed in full
};

Status RunEdits(const graph::Graph& graph,
                const replayer::ReplayOptions& options,
                const DeltaBench& bench,
                DeltaReplay* recorded,
                EditTimes* times) {
  Rng rng(bench.seed, bench.whole_role ? "edits of roles" : "edits of ranks");
  for (int64_t i = 0; i < bench.edits; ++i) {
    const Edit edit = DrawEdit(graph, bench.whole_role, &rng);
    const StopWatch of_delta;
    PRISM_ASSIGN_OR_RETURN(const DeltaResult delta, recorded->Evaluate(edit));
    const double delta_s = of_delta.CpuSeconds();
    PRISM_ASSIGN_OR_RETURN(const EditedJob job, ApplyEdit(graph, options, edit));
    const StopWatch of_full;
    PRISM_ASSIGN_OR_RETURN(const ReplayResult full, replayer::Replay(job.graph, job.options));
    const double full_s = of_full.CpuSeconds();
    times->full_s += full_s;
    times->delta_s.push_back(delta_s);
    times->ratios.push_back(full_s / delta_s);
    times->executed += delta.executed;
    times->given_up += delta.full ? 1 : 0;
    if (!delta.full && delta.reached == 0) {
      times->absorbed_ratios.push_back(full_s / delta_s);
    }
    if (!delta.full && full.iteration_ns == recorded->baseline().iteration_ns) {
      times->unfelt_ratios.push_back(full_s / delta_s);
    }
    times->equal += delta.replay->ranks == full.ranks &&
                            delta.replay->communicators == full.communicators &&
                            delta.replay->iteration_ns == full.iteration_ns
                        ? 1
                        : 0;
  }
  return OkStatus();
}

}  // namespace

BenchResult BenchDelta(const std::string& name,
                       const graph::Graph& graph,
                       const replayer::ReplayOptions& options,
                       DeltaBench bench) {
  const StopWatch record;
  PRISM_ASSIGN_OR_RETURN(std::unique_ptr<DeltaReplay> recorded,
                         DeltaReplay::Record(graph, options));
  const double record_s = record.Seconds();
  std::vector<BenchCase> cases;
  for (const bool whole_role : {false, true}) {
    bench.whole_role = whole_role;
    EditTimes times;
    PRISM_RETURN_IF_ERROR(RunEdits(graph, options, bench, recorded.get(), &times));
    if (times.equal != bench.edits) {
      return RunFailed(fmt::format(
          "{} of {} edits differ from a full replay; this is a bug in Prism, please report it",
          bench.edits - times.equal, bench.edits));
    }
    const auto count = static_cast<double>(bench.edits);
    BenchCase line = {
        "replay",
        fmt::format("{}, edits of one op of one {}", name, whole_role ? "role" : "rank"),
        {}};
    line.metrics = {
        {"edits", count, "edits"},
        {"equal", static_cast<double>(times.equal), "edits, byte for byte"},
        {"record_seconds", record_s, "s"},
        {"full_seconds", times.full_s / count, "s, mean"},
        {"delta_seconds", Median(times.delta_s), "s, median"},
        {"ratio", Median(times.ratios), "full/delta, median"},
        {"ratio_least", Least(times.ratios), "full/delta"},
        {"full_replays", static_cast<double>(times.given_up), "edits replayed in full"},
        {"absorbed_edits", static_cast<double>(times.absorbed_ratios.size()), "edits"},
        {"absorbed_ratio", Median(times.absorbed_ratios), "full/delta, median"},
        {"absorbed_ratio_least", Least(times.absorbed_ratios), "full/delta"},
        {"unfelt_edits", static_cast<double>(times.unfelt_ratios.size()),
         "edits that do not change the iteration"},
        {"unfelt_ratio_least", Least(times.unfelt_ratios), "full/delta"},
        {"executed_actions", static_cast<double>(times.executed) / count, "actions/edit"},
        {"max_rss_bytes", static_cast<double>(MaxResidentBytes()), "B"},
    };
    cases.push_back(std::move(line));
  }
  return cases;
}

}  // namespace prism::launch
