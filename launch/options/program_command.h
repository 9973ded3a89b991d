// What can be read from the command line of a user's program: what it is called, and whether it is
// one that starts ranks itself.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// Of "env NAME=VALUE python -u folder/train.py --steps 3" it is "train", of "python -m
// package.train" the module. `program` is not empty.
std::string ProgramName(const std::vector<std::string>& program);

// kInvalidArgument for torchrun and its like: they would start the ranks of a node, and here each
// rank is started by itself.
Status RefuseLauncher(const std::vector<std::string>& program);

}  // namespace prism::launch
