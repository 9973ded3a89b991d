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

// kInvalidArgument for torchrun and its like, which would start the ranks of a node, where here
// each rank is started by itself; for an env that takes away what a rank is given; and for options
// of env or Python of which it is not known whether the next word is theirs.
Status CheckProgram(const std::vector<std::string>& program);

}  // namespace prism::launch
