// Programs as a shell finds them.
#pragma once

#include <string>

namespace prism {

// The absolute path of a program: one without a slash is looked up in PATH. "" if there is none.
std::string FindExecutable(const std::string& name);

}  // namespace prism
