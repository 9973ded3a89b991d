#include "launch/emulate/run/script_start.h"

#include <time.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launch/emulate/sandbox/sandbox_process.h"
#include "launch/process/install_paths.h"
#include "launch/process/mpi_session.h"
#include "launch/process/stop_watch.h"

namespace prism::launch {
namespace {

constexpr double kLongestSeconds = 60;
constexpr int64_t kLookNs = 5'000'000;

// The words that are complete, as their last line says.
std::vector<std::string> WordsIn(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; text.ends_with('\n') && begin + 1 < text.size();) {
    const size_t end = text.find('\0', begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

Status StartScript(RunContext* context) {
  PRISM_ASSIGN_OR_RETURN(context->paths,
                         FindInstallPaths(context->options.program, context->gpu.has_value()));
  PRISM_ASSIGN_OR_RETURN(const std::unique_ptr<SandboxProcess> process,
                         SandboxProcess::Start(MakeScriptSpec(*context)));
  const StopWatch watch;
  bool exited = false;
  std::vector<std::string> words;
  while (words.empty() && !exited && watch.Seconds() < kLongestSeconds) {
    const timespec nap = {.tv_sec = 0, .tv_nsec = kLookNs};
    nanosleep(&nap, nullptr);
    exited = process->Exited();
    process->PumpOutput();
    words = WordsIn(process->LaunchedWords());
  }
  Launch& launch = context->options.launch;
  if (!words.empty()) {
    PRISM_ASSIGN_OR_RETURN(Launch inner, ReadLaunch(words));
    launch = ScriptLaunch(launch, std::move(inner));
    return OkStatus();
  }
  if (exited) {
    PRISM_RETURN_IF_ERROR(
        process->ExitStatus().WithContext("the script failed before it reached a launcher"));
  }
  launch.in_script = false;
  if (MpiSession::LaunchedRank() == 0) {
    context->logger.Info("the script {}: it runs as a program, as each rank",
                         exited ? "starts no launcher" : "reaches no launcher within a minute");
  }
  return OkStatus();
}

}  // namespace prism::launch
