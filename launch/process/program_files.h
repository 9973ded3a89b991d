// What a program will load, as far as its command says: the files whose NVIDIA libraries are
// replaced (launch/process/facades.h).
#pragma once

#include <string>
#include <vector>

namespace prism::launch {

// Of the command's program itself or, if that is an interpreter of Python or a script that needs
// one, the libraries of its torch. `python` is taken where the command does not say which.
std::vector<std::string> LoadedFiles(const std::vector<std::string>& command,
                                     const std::string& python);

}  // namespace prism::launch
