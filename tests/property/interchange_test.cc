// Formats of other tools: what is written is read back, and a graph made from tasks takes as long
// as the tasks do.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "replayer/cost/collective_cost.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"
#include "slicer/export/chakra/chakra_export.h"
#include "slicer/export/goal/goal_export.h"
#include "slicer/export/goal/goal_writer.h"
#include "slicer/import/chakra/chakra_import.h"
#include "slicer/import/goal/goal_binary.h"
#include "slicer/import/goal/goal_import.h"
#include "slicer/import/goal/goal_text.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_tasks.h"
#include "tests/support/test_parameters.h"

namespace prism::slicer {
namespace {

using testing::EvaluateTasks;
using testing::RandomTaskOptions;
using testing::RandomTasks;
using testing::TaskCosts;

RandomTaskOptions DrawOptions() {
  RandomTaskOptions options;
  options.seed = *rc::gen::arbitrary<uint64_t>();
  options.ranks = *rc::gen::inRange<uint32_t>(1, 6);
  options.events = *rc::gen::inRange<uint32_t>(0, 60);
  options.cpus = *rc::gen::inRange<uint16_t>(1, 4);
  options.tags = *rc::gen::inRange<uint32_t>(1, 4);
  return options;
}

graph::ClusterSpec FreeCluster() {
  graph::ClusterSpec cluster = testing::TestCluster();
  cluster.gpus_per_node = 1;  // inside a node, messages of a rank that run at once share its links
  testing::MakeFree(&cluster);
  return cluster;
}

std::string GoalText(const std::vector<TaskGraph>& ranks) {
  std::string text = GoalTextHead(static_cast<uint32_t>(ranks.size()));
  for (const TaskGraph& tasks : ranks) {
    AppendGoalText(tasks, &text);
  }
  return text;
}

// When each rank's last op ends, according to the engine.
std::vector<TimeNs> EngineEnds(const graph::Graph& graph) {
  replayer::ReplayOptions options;
  options.iterations = 1;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    options.traced.push_back(Rank(rank));
  }
  const Result<replayer::ReplayResult> result = replayer::Replay(graph, options);
  RC_ASSERT(result.ok());
  std::vector<TimeNs> ends;
  for (const replayer::Timeline& timeline : result->timelines) {
    const auto end = timeline.end.begin() + static_cast<int64_t>(timeline.whole);
    const auto last = std::max_element(timeline.end.begin(), end);
    ends.push_back(last == end ? 0 : *last);
  }
  return ends;
}

Result<ImportResult> ImportText(const std::string& text) {
  ImportOptions options;
  options.cluster = FreeCluster();
  return ImportGoalBytes(text, "random.goal", options);
}

// Line numbers belong to the file, not to the task; edges are in file order.
std::vector<TaskGraph> Comparable(std::vector<TaskGraph> ranks) {
  for (TaskGraph& tasks : ranks) {
    for (Task& task : tasks.tasks) {
      task.line = 0;
    }
    std::sort(tasks.edges.begin(), tasks.edges.end());
  }
  return ranks;
}

GoalHandler Collect(std::vector<TaskGraph>* read) {
  GoalHandler handler;
  handler.begin = [](uint32_t) { return OkStatus(); };
  handler.rank = [read](TaskGraph* tasks) {
    read->push_back(*tasks);
    return OkStatus();
  };
  return handler;
}

RC_GTEST_PROP(GoalProperty, text_reads_back_as_the_tasks_that_were_written, ()) {
  const std::vector<TaskGraph> ranks = RandomTasks(DrawOptions());
  std::vector<TaskGraph> read;
  GoalHandler handler = Collect(&read);
  const Status status = ReadGoalText(GoalText(ranks), "random.goal", &handler);
  RC_ASSERT(status.ok());
  RC_ASSERT(Comparable(read) == Comparable(ranks));
}

RC_GTEST_PROP(GoalProperty, binary_reads_back_as_the_tasks_that_were_written, ()) {
  const std::vector<TaskGraph> ranks = RandomTasks(DrawOptions());
  GoalBinaryHead head;
  std::string parts;
  for (const TaskGraph& tasks : ranks) {
    const std::string part = GoalBinaryPart(tasks);
    head.part_bytes.push_back(part.size());
    parts += part;
  }
  const std::string bytes = GoalBinaryHeadBytes(head) + parts;
  RC_ASSERT(IsGoalBinary(bytes));
  std::vector<TaskGraph> read;
  GoalHandler handler = Collect(&read);
  const Status status = ReadGoalBinary(bytes, "random.bin", &handler);
  RC_ASSERT(status.ok());
  RC_ASSERT(Comparable(read) == Comparable(ranks));
}

RC_GTEST_PROP(GoalProperty, a_graph_takes_as_long_as_its_tasks, ()) {
  const std::vector<TaskGraph> ranks = RandomTasks(DrawOptions());
  const Result<ImportResult> imported = ImportText(GoalText(ranks));
  RC_ASSERT(imported.ok());
  const graph::ClusterSpec cluster = FreeCluster();
  const replayer::CollectiveCost cost(cluster);
  TaskCosts costs;
  costs.transfer = [&](int64_t bytes, bool same_node) {
    return cost.PeerTransfer(bytes, same_node);
  };
  costs.is_eager = [&](int64_t bytes) { return cost.IsEager(bytes); };
  costs.gpus_per_node = static_cast<uint32_t>(cluster.gpus_per_node);
  RC_ASSERT(EngineEnds(imported->graph) == EvaluateTasks(ranks, costs));
}

RC_GTEST_PROP(GoalProperty, export_and_import_keep_the_times, ()) {
  const std::vector<TaskGraph> ranks = RandomTasks(DrawOptions());
  const Result<ImportResult> first = ImportText(GoalText(ranks));
  RC_ASSERT(first.ok());
  const GoalForm form = *rc::gen::element(GoalForm::kText, GoalForm::kBinary);
  std::string bytes;
  const Result<ExportResult> written =
      WriteGoal(first->graph, form, [&bytes](std::string_view piece) {
        bytes += piece;
        return OkStatus();
      });
  RC_ASSERT(written.ok());
  RC_ASSERT(written->tasks == first->tasks);
  RC_ASSERT(written->bytes == static_cast<int64_t>(bytes.size()));
  const Result<ImportResult> second = ImportText(bytes);
  RC_ASSERT(second.ok());
  RC_ASSERT(EngineEnds(second->graph) == EngineEnds(first->graph));
  RC_ASSERT(second->graph.roles.size() == first->graph.roles.size());
}

Result<ImportResult> ImportTraces(const std::vector<std::string>& traces) {
  ImportOptions options;
  options.cluster = FreeCluster();
  std::vector<TraceSource> sources;
  for (const std::string& trace : traces) {
    sources.push_back({"random.et", trace});
  }
  return ImportChakraBytes(sources, options, {});
}

std::vector<std::string> ChakraTraces(const graph::Graph& graph, Notes* notes) {
  std::vector<std::string> traces;
  ChakraNumbers numbers;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    int64_t tasks = 0;
    const Result<std::string> trace = ChakraTrace(graph, Rank(rank), &numbers, notes, &tasks);
    RC_ASSERT(trace.ok());
    traces.push_back(*trace);
  }
  return traces;
}

RC_GTEST_PROP(ChakraProperty, export_and_import_keep_the_times, ()) {
  RandomTaskOptions options = DrawOptions();
  options.begun = false;
  const Result<ImportResult> first = ImportText(GoalText(RandomTasks(options)));
  RC_ASSERT(first.ok());
  Notes notes;
  const Result<ImportResult> second = ImportTraces(ChakraTraces(first->graph, &notes));
  RC_ASSERT(second.ok());
  RC_ASSERT(EngineEnds(second->graph) == EngineEnds(first->graph));
  RC_ASSERT(second->tasks == first->tasks);
}

// Streams, events, host waits and host gaps, all of fixed time, on a host without costs.
graph::Graph RandomPrograms() {
  testing::RandomGraphOptions options = testing::RandomOptions(*rc::gen::arbitrary<uint64_t>());
  options.modelled_kernels = false;
  options.grouped = false;
  options.families = 0;
  graph::Graph graph = testing::RandomGraph(options);
  graph.cluster = FreeCluster();
  constexpr int64_t kLongest = 100'000;
  for (graph::Role& role : graph.roles) {
    graph::Program& program = role.program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == graph::OpKind::kMemcpy ||
          program.kind[op] == graph::OpKind::kMemset) {
        program.value.Set(op, program.value[op] % kLongest);
        program.flags[op] |= graph::kDurationFixed;
      }
    }
  }
  return graph;
}

RC_GTEST_PROP(GoalProperty, programs_on_streams_keep_their_times, ()) {
  const graph::Graph graph = RandomPrograms();
  std::string text;
  const Result<ExportResult> written =
      WriteGoal(graph, GoalForm::kText, [&text](std::string_view piece) {
        text += piece;
        return OkStatus();
      });
  RC_ASSERT(written.ok());
  const Result<ImportResult> read = ImportText(text);
  RC_ASSERT(read.ok());
  RC_ASSERT(EngineEnds(read->graph) == EngineEnds(graph));
}

RC_GTEST_PROP(ChakraProperty, programs_on_streams_keep_their_times, ()) {
  const graph::Graph graph = RandomPrograms();
  Notes notes;
  const Result<ImportResult> read = ImportTraces(ChakraTraces(graph, &notes));
  RC_ASSERT(read.ok());
  RC_ASSERT(EngineEnds(read->graph) == EngineEnds(graph));
  // Numbers of groups and tags do not follow those of the graph's communicators.
  const std::vector<std::string> again = ChakraTraces(read->graph, &notes);
  const Result<ImportResult> second = ImportTraces(again);
  RC_ASSERT(second.ok());
  RC_ASSERT(ChakraTraces(second->graph, &notes) == again);
}

}  // namespace
}  // namespace prism::slicer
