#include "launch/analyse/explanation.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/describe.h"
#include "replayer/cost/measured_kernels.h"
#include "replayer/engine/replay_options.h"
#include "replayer/replay.h"
#include "replayer/report/blame_report.h"
#include "replayer/report/json.h"
#include "replayer/report/link_report.h"
#include "replayer/report/text.h"
#include "replayer/report/what_matters_report.h"

namespace prism::launch {
namespace {

// What a rule of CostReport is based on.
const char* SourceOf(const std::string& rule) {
  if (rule == "recorded" || rule == "measured" || rule == "fixed") {
    return "measured";
  }
  return rule == "matmul" || rule == "attention" ? "model" : "bytes";
}

// Enough decimals that the shortest time keeps its digits.
int DecimalsOf(const replayer::CostReport& costs) {
  int decimals = 0;
  for (const replayer::CostRule& rule : costs) {
    if (rule.seconds > 0) {
      decimals = std::max(decimals, replayer::FineDecimals(rule.seconds));
    }
  }
  return decimals;
}

std::string CostsText(const replayer::CostReport& costs) {
  std::string text = "kernels of one iteration over all ranks, by what decided their time\n";
  const int decimals = DecimalsOf(costs);
  for (const replayer::CostRule& rule : costs) {
    text += fmt::format("  {:<10}{:<10}{:>14} ops {:>14.{}f} s{}{}\n", SourceOf(rule.rule),
                        rule.rule, rule.ops, rule.seconds, decimals,
                        rule.example.empty() ? "" : "  ", graph::WithoutTemplates(rule.example));
  }
  return text;
}

std::string HostText(const std::vector<replayer::HostCostRow>& rows) {
  std::string text =
      "host time of one iteration over all ranks, as measured beside the GPU and as replayed\n";
  for (const replayer::HostCostRow& row : rows) {
    text += fmt::format("  {:<20}{:>14} ops {:>14.6f} s {:>14.6f} s\n", row.kind, row.ops,
                        row.recorded_s, row.replay_s);
  }
  return text;
}

void WriteHost(const std::vector<replayer::HostCostRow>& rows, JsonWriter* json) {
  json->BeginArray();
  for (const replayer::HostCostRow& row : rows) {
    json->BeginObject();
    json->Field("kind", row.kind).Field("ops", row.ops);
    json->Field("recorded_s", row.recorded_s).Field("replay_s", row.replay_s);
    json->EndObject();
  }
  json->EndArray();
}

void WriteCosts(const replayer::CostReport& costs, JsonWriter* json) {
  json->BeginArray();
  for (const replayer::CostRule& rule : costs) {
    json->BeginObject();
    json->Field("source", SourceOf(rule.rule)).Field("rule", rule.rule);
    json->Field("ops", rule.ops).Field("seconds", rule.seconds);
    json->EndObject();
  }
  json->EndArray();
}

std::string AsText(const graph::Graph& graph,
                   const replayer::Summary& summary,
                   const Explanation& explanation) {
  std::string text = replayer::SummaryText(summary, {});
  if (explanation.costs) {
    text += CostsText(*explanation.costs);
  }
  if (!explanation.host.empty()) {
    text += HostText(explanation.host);
  }
  if (explanation.blame) {
    text += replayer::BlameText(*explanation.blame);
  }
  if (explanation.symptoms) {
    text += replayer::SymptomsText(graph, *explanation.symptoms);
  }
  if (explanation.matters) {
    text += replayer::WhatMattersText(*explanation.matters);
  }
  if (explanation.links) {
    text += replayer::LinkLoadsText(*explanation.links);
  }
  return text;
}

std::string AsJson(const graph::Graph& graph,
                   const replayer::Summary& summary,
                   const Explanation& explanation) {
  return JsonText([&](JsonWriter& json) {
    json.Key("summary");
    replayer::WriteSummary(summary, &json);
    if (explanation.costs) {
      json.Key("costs");
      WriteCosts(*explanation.costs, &json);
    }
    if (!explanation.host.empty()) {
      json.Key("host");
      WriteHost(explanation.host, &json);
    }
    if (explanation.blame) {
      json.Key("critical_path");
      replayer::WriteBlame(*explanation.blame, &json);
    }
    if (explanation.symptoms) {
      json.Key("straggler");
      replayer::WriteSymptoms(graph, *explanation.symptoms, &json);
    }
    if (explanation.matters) {
      replayer::WriteWhatMatters(*explanation.matters, &json);
    }
    if (explanation.links) {
      json.Key("links");
      replayer::WriteLinkLoads(*explanation.links, &json);
    }
  });
}

}  // namespace

Result<Explanation> Explain(const ExplanationChoice& choice,
                            const graph::Graph& graph,
                            const replayer::ReplayOptions& options) {
  Explanation explanation;
  if (choice.costs) {
    explanation.costs = replayer::ReportCosts(graph);
    explanation.host = replayer::ReportHostCosts(graph);
  }
  if ((choice.critical_path || choice.what_matters) &&
      options.network == replayer::NetworkModel::kFlow) {
    return InvalidArgument(
        fmt::format("--{} does not support --network flow; use --network analytic",
                    choice.critical_path ? "critical-path" : "what-matters"));
  }
  if (choice.critical_path) {
    PRISM_ASSIGN_OR_RETURN(const replayer::CriticalPath path,
                           replayer::FindCriticalPath(graph, options));
    PRISM_ASSIGN_OR_RETURN(explanation.blame, replayer::BlamePath(graph, options, path));
  }
  if (choice.straggler) {
    PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, options));
    explanation.symptoms = replayer::FindStraggler(graph, result.ranks, result.waits_ns);
  }
  if (choice.links) {
    if (options.network != replayer::NetworkModel::kFlow) {
      return InvalidArgument("--links needs --network flow, the only model that knows links");
    }
    PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, options));
    explanation.links = *result.links;
  }
  if (choice.what_matters) {
    PRISM_ASSIGN_OR_RETURN(explanation.matters, replayer::FindWhatMatters(graph, options));
  }
  return explanation;
}

std::string SummaryAndExplanation(const graph::Graph& graph,
                                  const replayer::Summary& summary,
                                  const Explanation& explanation,
                                  OutputFormat format) {
  if (format == OutputFormat::kText) {
    return AsText(graph, summary, explanation);
  }
  return explanation.empty() ? replayer::SummaryJson(summary) : AsJson(graph, summary, explanation);
}

}  // namespace prism::launch
