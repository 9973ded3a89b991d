// Which commands start the ranks of a job themselves (torchrun, srun, ...). Known to both sides:
// Prism reads such a command in place of starting it, and the shim finds it in a script. Uses
// nothing but the words of the command.
#pragma once

#include <string_view>

namespace prism::channel {

// What the shim reads in the environment of a script: the program that stands in for launchers.
inline constexpr const char* kStandInVariable = "PRISM_LAUNCH";

inline constexpr std::string_view kLauncherPrograms[] = {
    "torchrun", "accelerate", "accelerate-launch", "deepspeed", "srun", "mpirun", "mpiexec"};
inline constexpr std::string_view kLauncherModules[] = {
    "torch.distributed.run",      "torch.distributed.launch",  "torch.distributed.elastic.launch",
    "accelerate.commands.launch", "deepspeed.launcher.runner", "deepspeed"};

constexpr bool IsOneOf(std::string_view name, const auto& names) {
  for (const std::string_view known : names) {
    if (name == known) {
      return true;
    }
  }
  return false;
}

constexpr std::string_view FileNameOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Of `accelerate`, only `accelerate launch` starts ranks. Null ends the words.
constexpr bool IsLauncherProgram(const char* const* words) {
  const std::string_view name = FileNameOf(words[0]);
  return IsOneOf(name, kLauncherPrograms) &&
         (name != "accelerate" || (words[1] != nullptr && std::string_view(words[1]) == "launch"));
}

// The place of the launcher's name among the words of a command ("torchrun", or, after "python -u
// -m", "torch.distributed.run"); -1 if there is none. Null ends the words.
constexpr int LauncherPlace(const char* const* words) {
  if (words[0] == nullptr) {
    return -1;
  }
  if (IsLauncherProgram(words)) {
    return 0;
  }
  if (!FileNameOf(words[0]).starts_with("python")) {
    return -1;
  }
  for (int i = 1; words[i] != nullptr; ++i) {
    const std::string_view word = words[i];
    if (!word.starts_with("-")) {
      return IsLauncherProgram(words + i) ? i : -1;
    }
    if (word == "-W" || word == "-X" || word == "--check-hash-based-pycs") {
      i += words[i + 1] != nullptr ? 1 : 0;
    } else if (!word.starts_with("--") && word.ends_with("c")) {
      return -1;  // code in the command line
    } else if (!word.starts_with("--") && !word.starts_with("-W") && !word.starts_with("-X") &&
               word.ends_with("m")) {
      return words[i + 1] != nullptr && IsOneOf(words[i + 1], kLauncherModules) ? i + 1 : -1;
    }
  }
  return -1;
}

}  // namespace prism::channel
