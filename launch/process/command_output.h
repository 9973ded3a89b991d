// What a command that Prism itself starts (an interpreter, a compiler) prints.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

struct CommandOutput {
  int exit_code = 0;  // 128 + the signal that ended it; 127: it could not be started
  bool in_time = true;
  std::string text;  // both streams, its first MiB
};

// Starts the command (found on PATH) without standard input, and waits for its end. It is killed,
// with what it started, after that many seconds, and when this process is interrupted or killed.
CommandOutput RunCommand(const std::vector<std::string>& command, double seconds);

// The last line that is not blank; "" if there is none.
std::string LastLine(const std::string& text);

}  // namespace prism::launch
