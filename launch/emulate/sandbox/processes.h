// Processes of this machine, according to /proc.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string_view>

namespace prism::launch {

// The text as a process number; 0 if it is not one.
pid_t ProcessNumber(std::string_view text);

std::set<pid_t> ProcessesWhere(const std::function<bool(pid_t)>& holds);

}  // namespace prism::launch
