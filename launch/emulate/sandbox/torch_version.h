// Which torch a program runs on, from the wheel that its libtorch belongs to.
#pragma once

#include <sys/types.h>

#include <string>

namespace prism::launch {

// "2.11.0+cu130", from torch/version.py beside the library that the process has mapped. "" if it
// has none mapped, if the process is gone, or if there is no such file (libtorch without the
// wheel).
std::string TorchVersionOf(pid_t process);

}  // namespace prism::launch
