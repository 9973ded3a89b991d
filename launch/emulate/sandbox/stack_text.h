// The relevant part of a process's stacks, for messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace prism::launch {

// The innermost frames, at most `count`, of the thread that was interrupted (the main thread, as a
// rule), innermost first. `stacks` as shim/stack_writer.h writes them. Python frames begin with the
// program's own: those of installed packages further in are left out. Native frames begin after the
// wait for the worker, demangled.
std::vector<std::string> InnermostFrames(std::string_view stacks, size_t count);

}  // namespace prism::launch
