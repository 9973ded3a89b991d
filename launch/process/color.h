// Colours on a terminal: the name that an error begins with, the word "warning", the head of a
// summary. No meaning rests on them, and no file holds them.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/log.h"

namespace prism::launch {

// `choice` of --color for text written to this descriptor: "auto" colours a terminal outside of
// mpirun, "on" a pipe as well, "off" nothing. Where NO_COLOR is set, or the output goes into a
// file, nothing is.
bool ShowsColor(std::string_view choice, int descriptor);

// The text in red, bold or yellow if `shows`, else as it is.
std::string Red(std::string_view text, bool shows);
std::string Bold(std::string_view text, bool shows);
std::string Yellow(std::string_view text, bool shows);

// Logs to stderr, warnings in colour where --color has them so.
Logger ColoredLogger(LogLevel level, std::string_view choice);

// A summary of a run with its first line and the label of its warnings in colour.
std::string ColoredSummary(std::string text, bool shows);

}  // namespace prism::launch
