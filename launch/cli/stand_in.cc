#include "launch/cli/stand_in.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/executable.h"
#include "launch/exit_codes.h"
#include "launch/inputs/launchers.h"
#include "launch/inputs/program_command.h"
#include "launch/process/output.h"
#include "shim/channel/launcher_names.h"

namespace prism::launch {
namespace {

constexpr const char* kWho = "prism run";
constexpr const char* kFileVariable = "PRISM_LAUNCH_FILE";
constexpr const char* kPlaceVariable = "PRISM_LAUNCH_PLACE";
constexpr unsigned kWaitSeconds = 600;  // longer than a script is waited for

// False if an earlier launcher of the script has left its own.
bool LeaveWords(const std::vector<std::string>& words) {
  const char* const path = std::getenv(kFileVariable);
  if (path == nullptr || std::ifstream(path).peek() != std::ifstream::traits_type::eof()) {
    return false;
  }
  std::string text;
  for (const std::string& word : words) {
    text += word + '\0';
  }
  text += '\n';
  std::ofstream(path, std::ios::app) << text;
  return true;
}

int Become(const std::vector<std::pair<std::string, std::string>>& variables,
           std::vector<std::string> program) {
  for (const auto& [name, value] : variables) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  std::vector<char*> pointers;
  for (std::string& word : program) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  return Fail(kWho, BadFile(fmt::format("cannot start {}: {}", program[0], std::strerror(errno))));
}

}  // namespace

bool IsStandIn(const std::string& name) {
  return std::getenv(channel::kStandInVariable) != nullptr &&
         channel::FileNameOf(name) != "prism-emulate";
}

int RunStandIn(std::vector<std::string> words) {
  if (const std::string path = FindExecutable(words[0]); !path.empty()) {
    words[0] = path;
  }
  const char* const place = std::getenv(kPlaceVariable);
  const Result<Launch> launch = ReadLaunch(words);
  if (launch.ok() && MayStartLauncher(launch->program)) {
    Launch of_node = *launch;
    of_node.variables = NodeVariables(*launch);
    return Become(RankVariables(of_node, PlaceFrom(place == nullptr ? "" : place)),
                  launch->program);
  }
  if (!LeaveWords(words)) {
    return Say(kWho, fmt::format("prism run: a second launcher of the script is not run: {}\n",
                                 fmt::join(words, " ")));
  }
  if (place == nullptr) {
    sleep(kWaitSeconds);
    return kExitOk;
  }
  if (!launch.ok()) {
    return Fail(kWho, launch.status());
  }
  const LaunchPlace rank = PlaceFrom(place);
  for (const char* variable : {channel::kStandInVariable, kFileVariable, kPlaceVariable}) {
    unsetenv(variable);
  }
  return Become(RankVariables(*launch, rank), RankProgram(*launch, rank));
}

}  // namespace prism::launch
