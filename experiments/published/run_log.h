// What a framework's own log says about a run, in the columns of a published row: the plan as the
// framework prints it at the start, and what it measured. logs.csv has a line for each thing that
// is found: `key` is a text of the log, after which a value stands (a "*" in it is the value),
// `column` where that goes, `is` a pattern of values that count, `value` what to write instead.
// `take`: the first value; "median", times `factor`, of the later half of all values (the first
// ones are still warming up); or the product of all keys with that column. The first line of a
// framework is its measurement: a log is that framework's whose measurement it has.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism::launch {

// By column; "framework" is among them. kBadFile, listing the frameworks, if nothing of any is
// found. `where` is the file's name for messages.
Result<std::map<std::string, std::string>> ReadRunLog(std::string_view text,
                                                      const std::string& where);

}  // namespace prism::launch
