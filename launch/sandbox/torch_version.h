// Which torch a program runs on: the wheel that its libtorch belongs to says so.
#pragma once

#include <sys/types.h>

#include <string>

namespace prism::launch {

// "2.11.0+cu130", from torch/version.py beside the library that the process has mapped. "" where it
// has none mapped, where the process is gone, or where no such file lies there (libtorch alone).
std::string TorchVersionOf(pid_t process);

}  // namespace prism::launch
