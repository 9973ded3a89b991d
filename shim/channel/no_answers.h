// What a program prints if the library that answers for the ranks that do not run cannot be loaded;
// the launcher looks for it.
#pragma once

namespace prism::channel {

inline constexpr const char* kNoAnswers = "nothing answers for the ranks that do not run";

}  // namespace prism::channel
