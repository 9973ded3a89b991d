// Which torch a user's command runs on, as far as can be said before it is started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/process/torch_install.h"

namespace prism::launch {

// The interpreter of the built-in job and of commands that do not say theirs: that of PRISM_PYTHON,
// else of .venv beside a source build, else python3.
std::string DefaultPython();

// The words that start the command's Python: {"env", "A=1", "python"} of "env A=1 python -u
// train.py", the first line's of a Python script. Empty if it starts none itself.
std::vector<std::string> PythonOf(const std::vector<std::string>& command);

// The torch of a command's Python; of a C++ program, that which its file links; of a script of a
// shell, DefaultPython's if that has one. None for any other program. kEnvironment for a Python
// whose torch is of no use (CheckTorch).
Result<std::optional<TorchInstall>> FindProgramTorch(const std::vector<std::string>& command);

}  // namespace prism::launch
