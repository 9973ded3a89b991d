// Colours on a terminal: the name with which an error begins, the word "warning", the first line of
// a summary. They carry no meaning of their own, and are never written to files.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/log.h"

namespace prism::launch {

// `choice` of --color for text written to this descriptor: "auto" colours a terminal outside
// mpirun, "on" a pipe as well, "off" nothing. If NO_COLOR is set, or the output goes to a file,
// nothing is coloured.
bool ShowsColor(std::string_view choice, int descriptor);

// The text in red, bold or yellow if `shows`, else as it is.
std::string Red(std::string_view text, bool shows);
std::string Bold(std::string_view text, bool shows);
std::string Yellow(std::string_view text, bool shows);

// Logs to stderr, with warnings in colour if --color says so.
Logger ColoredLogger(LogLevel level, std::string_view choice);

// A summary of a run with its first line and the label of its warnings in colour.
std::string ColoredSummary(std::string text, bool shows);

}  // namespace prism::launch
