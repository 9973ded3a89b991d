// What can be read from the command line of a user's program: its name and script, and whether it
// may start a launcher. Launchers themselves: launchers.h.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// For "env NAME=VALUE python -u folder/train.py --steps 3" it is "train", for "python -m
// package.train" the module. `program` must not be empty.
std::string ProgramName(const std::vector<std::string>& program);

// The file that a Python interpreter or a shell is to run: "folder/train.py" in the example. "" for
// a module, for code in the command line, for a file of another kind, and where env changes the
// folder first.
std::string ProgramScript(const std::vector<std::string>& program);

// kInvalidArgument for an env that removes what a rank is given, and for options of env or Python
// that may or may not take the next word.
Status CheckProgram(const std::vector<std::string>& program);

// The word that env starts in "env NAME=VALUE python train.py", else 0.
size_t FirstWordOf(const std::vector<std::string>& program);

// Whether the program is a script of a shell, or one that starts what its arguments name (uv run,
// conda run, timeout), and a launcher's name occurs in it.
bool MayStartLauncher(const std::vector<std::string>& program);

}  // namespace prism::launch
