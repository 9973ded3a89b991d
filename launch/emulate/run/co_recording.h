// Ranks on a dependency cycle, of which each can go on only with what another one sends later:
// stages of a pipeline that tell each other the shape of every message, there and back. Recorded
// one after the other they would get one message further in a round. They run once at the same time
// instead, for what they send each other; then each is recorded by itself (run/recorded_slice.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "launch/emulate/run/recorded_slice.h"
#include "launch/emulate/run/run_context.h"

namespace prism::launch {

// What the ranks sent, as a part of a value book: until each has repeated an iteration, or ended.
// `book`: what ranks recorded before have sent; `length`: how long ranks are recorded. If one of
// their programs fails after one of them was given values in place of a rank besides these, that
// one runs along too. Else kRunFailed as that program; also if one hangs, or if they are more than
// can run together.
Result<std::string> CoRecord(const RunContext& context,
                             const std::vector<Rank>& ranks,
                             std::string_view book,
                             const RecordedLength& length);

}  // namespace prism::launch
