// Processes of this machine, by what /proc says of them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string_view>

namespace prism::launch {

// The number that the text is; 0 where it is none.
pid_t ProcessNumber(std::string_view text);

std::set<pid_t> ProcessesWhere(const std::function<bool(pid_t)>& holds);

}  // namespace prism::launch
