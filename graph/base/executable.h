// Programs as a shell finds them.
#pragma once

#include <string>
#include <string_view>

namespace prism {

// The absolute path of a program: one without a slash is looked up in PATH. "" if there is none.
std::string FindExecutable(const std::string& name);

// Whether a program of this name starts the one that its arguments name, in an environment that it
// makes (uv run, env, timeout).
bool StartsAnother(std::string_view name);

}  // namespace prism
