#include "replayer/report/blame_report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "graph/base/units.h"

namespace prism::replayer {
namespace {

constexpr size_t kShownItems = 5;
constexpr size_t kShownSuspects = 8;
constexpr size_t kShownWaiting = 8;

std::string ItemLine(const BlameItem& item, DurationNs iteration_ns, const char* indent) {
  const double percent = 100 * static_cast<double>(item.ns) /
                         static_cast<double>(std::max<DurationNs>(iteration_ns, 1));
  return fmt::format("{}{:>6.2f} %  {:>9}  {}\n", indent, percent, FormatDuration(item.ns),
                     item.what);
}

std::string TopLines(const char* title,
                     const std::vector<BlameItem>& items,
                     DurationNs iteration_ns) {
  if (items.empty()) {
    return {};
  }
  std::string text = fmt::format("  {}\n", title);
  for (size_t i = 0; i < std::min(items.size(), kShownItems); ++i) {
    text += ItemLine(items[i], iteration_ns, "    ");
  }
  if (items.size() > kShownItems) {
    text += fmt::format("    and {} more\n", items.size() - kShownItems);
  }
  return text;
}

void WriteItems(const char* key, const std::vector<BlameItem>& items, JsonWriter* json) {
  json->ObjectsField(key, items, [&](const BlameItem& item) {
    json->Field("what", item.what).Field("ns", item.ns).Field("steps", item.steps);
  });
}

const std::string& NameOf(const graph::Graph& graph, CommId comm) {
  return graph.string(StringId(graph.communicators.name[comm.value()]));
}

std::string SuspectText(const graph::Graph& graph, const Suspect& suspect) {
  std::string text =
      fmt::format("  rank {} ({}): {:.3f} times as long as its peers\n", suspect.rank.value(),
                  graph.role_of(suspect.rank).name, suspect.factor);
  for (const std::string& line : suspect.evidence) {
    text += fmt::format("    {}\n", line);
  }
  return text;
}

}  // namespace

std::string BlameText(const Blame& blame) {
  std::string text = fmt::format(
      "critical path {} to the end of rank {}, {} on {}; at home on stage {}, rank {}\n",
      FormatDuration(blame.iteration_ns), blame.rank.value(), FormatCounted(blame.steps, "step"),
      FormatCounted(blame.ranks, "rank"), blame.home_stage, blame.home_rank.value());
  for (const BlameItem& item : blame.shares) {
    text += ItemLine(item, blame.iteration_ns, "  ");
    if (item.what == "bubble") {
      for (const BlameItem& part : blame.bubble) {
        text += ItemLine(part, blame.iteration_ns, "          ");
      }
    }
  }
  text += TopLines("most by op", blame.ops, blame.iteration_ns);
  text += TopLines("most by layer", blame.layers, blame.iteration_ns);
  text += TopLines("most by stage", blame.stages, blame.iteration_ns);
  return text + TopLines("most by link", blame.links, blame.iteration_ns);
}

void WriteBlame(const Blame& blame, JsonWriter* json) {
  json->BeginObject();
  json->Field("iteration_ns", blame.iteration_ns);
  json->Field("rank", int64_t{blame.rank.value()});
  json->Field("home_stage", int64_t{blame.home_stage});
  json->Field("home_rank", int64_t{blame.home_rank.value()});
  json->Field("steps", blame.steps);
  json->Field("ranks", blame.ranks);
  WriteItems("shares", blame.shares, json);
  WriteItems("bubble", blame.bubble, json);
  WriteItems("ops", blame.ops, json);
  WriteItems("layers", blame.layers, json);
  WriteItems("stages", blame.stages, json);
  WriteItems("links", blame.links, json);
  json->EndObject();
}

std::string SymptomsText(const graph::Graph& graph, const Symptoms& symptoms) {
  std::string text = symptoms.suspects.empty()
                         ? std::string("straggler: none\n")
                         : fmt::format("straggler: rank {}\n", symptoms.suspects[0].rank.value());
  for (size_t i = 0; i < std::min(symptoms.suspects.size(), kShownSuspects); ++i) {
    text += SuspectText(graph, symptoms.suspects[i]);
  }
  if (symptoms.suspects.size() > kShownSuspects) {
    text += fmt::format("  and {} more ranks\n", symptoms.suspects.size() - kShownSuspects);
  }
  if (!symptoms.waiting.empty()) {
    text += "  who waits for whom, an iteration\n";
    text += fmt::format("    {:<16}{:>7}{:>10}{:>8}  {:>9}  {:>9}\n", "communicator", "number",
                        "for rank", "ranks", "longest", "mean");
  }
  for (size_t i = 0; i < std::min(symptoms.waiting.size(), kShownWaiting); ++i) {
    const Waiting& waiting = symptoms.waiting[i];
    text += fmt::format("    {:<16}{:>7}{:>10}{:>8}  {:>9}  {:>9}\n",
                        NameOf(graph, waiting.communicator), waiting.communicator.value(),
                        waiting.awaited.value(), waiting.ranks, FormatDuration(waiting.longest_ns),
                        FormatDuration(waiting.total_ns / waiting.ranks));
  }
  if (symptoms.waiting.size() > kShownWaiting) {
    text += fmt::format("    and {} more communicators\n", symptoms.waiting.size() - kShownWaiting);
  }
  return text;
}

void WriteSymptoms(const graph::Graph& graph, const Symptoms& symptoms, JsonWriter* json) {
  json->BeginObject();
  json->ObjectsField("suspects", symptoms.suspects, [&](const Suspect& suspect) {
    json->Field("rank", int64_t{suspect.rank.value()}).Field("factor", suspect.factor);
    json->ArrayField("evidence", suspect.evidence);
  });
  json->ObjectsField(
          "waiting", symptoms.waiting,
          [&](const Waiting& waiting) {
            json->Field("communicator", NameOf(graph, waiting.communicator));
            json->Field("number", int64_t{waiting.communicator.value()});
            json->Field("for_rank", int64_t{waiting.awaited.value()});
            json->Field("ranks", waiting.ranks);
            json->Field("longest_ns", waiting.longest_ns).Field("total_ns", waiting.total_ns);
          })
      .EndObject();
}

}  // namespace prism::replayer
