// An SVG of what ranks did over the steady iteration, one row per rank: where a pipeline fills and
// drains, and who waits for whom.
#pragma once

#include <string>
#include <vector>

#include "replayer/report/rank_activity.h"

namespace prism::replayer {

struct GanttRow {
  std::string label;
  std::vector<ActivitySpan> spans;  // ascending, without gaps
};

// The colour of a kind of time, here and in everything shown next to it: "#4477aa".
const char* SpanColor(SpanKind kind);

// Time runs from the earliest begin of all rows to the latest end. A picture has a thousand
// columns; each shows what took most of its time.
std::string GanttSvg(const std::vector<GanttRow>& rows);

}  // namespace prism::replayer
