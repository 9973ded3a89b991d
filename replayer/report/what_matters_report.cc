#include "replayer/report/what_matters_report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/time.h"
#include "graph/base/units.h"
#include "replayer/report/text.h"

namespace prism::replayer {
namespace {

constexpr size_t kShownSaving = 30;
constexpr size_t kShownUseless = 8;

std::string FasterLine(const FasterPart& faster, int decimals) {
  return fmt::format("  {:>12} {:>9.1f} % {:>10}  {}\n",
                     fmt::format("{:.{}f} s", SecondsFromNs(faster.saved_ns), decimals),
                     100 * faster.share, FormatDuration(faster.part.busy_ns), TitleOf(faster.part));
}

}  // namespace

std::string TitleOf(const JobPart& part) {
  switch (part.kind) {
    case PartKind::kLayer:
      return part.name;
    case PartKind::kHost:
      return "host of " + part.name;
    case PartKind::kLink:
      return "links " + part.name;
    default:
      return fmt::format("{} {}", PartKindName(part.kind), part.name);
  }
}

const char* EffectOf(const FasterPart& faster) {
  return faster.saved_ns > 0 ? "" : faster.saved_ns == 0 ? "nothing" : "longer";
}

std::string WhatMattersText(const WhatMatters& matters) {
  const double seconds = SecondsFromNs(matters.iteration_ns);
  const int decimals = FineDecimals(seconds);
  std::string text = fmt::format(
      "what matters: the iteration, {}, with one thing 10 % faster\n"
      "  (its time: on the rank that spends most on it; ranks in a row can save more than its "
      "tenth)\n"
      "         saved  of a tenth   its time\n",
      FineSeconds(seconds));
  std::vector<std::string> useless;
  std::string harmful;
  size_t saving = 0;
  for (const FasterPart& faster : matters.parts) {
    if (faster.saved_ns > 0) {
      text += ++saving <= kShownSaving ? FasterLine(faster, decimals) : "";
    } else if (faster.saved_ns == 0) {
      useless.push_back(TitleOf(faster.part));
    } else {
      harmful += FasterLine(faster, decimals);
    }
  }
  if (saving > kShownSaving) {
    text += fmt::format("  and {} more that save less\n", saving - kShownSaving);
  }
  if (!harmful.empty()) {
    text += "  the iteration takes longer:\n" + harmful;
  }
  if (!useless.empty()) {
    const size_t hidden = useless.size() - std::min(useless.size(), kShownUseless);
    useless.resize(useless.size() - hidden);
    text += fmt::format("  nothing changes: {}{}\n", fmt::join(useless, ", "),
                        hidden > 0 ? fmt::format(" and {} more", hidden) : "");
  }
  if (matters.left_out > 0) {
    text += fmt::format("  not tried: {}, which take less time\n",
                        FormatCounted(matters.left_out, "more thing"));
  }
  return text;
}

void WriteWhatMatters(const WhatMatters& matters, JsonWriter* json) {
  json->ObjectsField("what_matters", matters.parts, [&](const FasterPart& faster) {
    json->Field("kind", PartKindName(faster.part.kind)).Field("name", faster.part.name);
    json->Field("seconds_of_it", SecondsFromNs(faster.part.busy_ns));
    json->Field("iteration_s", SecondsFromNs(faster.iteration_ns));
    json->Field("saved_s", SecondsFromNs(faster.saved_ns)).Field("share", faster.share);
  });
  json->Field("left_out", matters.left_out);
}

}  // namespace prism::replayer
