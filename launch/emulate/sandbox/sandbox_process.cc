#include "launch/emulate/sandbox/sandbox_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "launch/emulate/sandbox/fork_server.h"
#include "launch/emulate/sandbox/guard.h"
#include "launch/emulate/sandbox/last_lines.h"
#include "launch/emulate/sandbox/process_group.h"
#include "launch/process/output.h"
#include "shim/channel/launcher_names.h"
#include "shim/channel/no_answers.h"

extern char** environ;

namespace prism::launch {
namespace {

constexpr size_t kMaxLogBytes = size_t{16} << 20U;
constexpr const char* kCutHere = "\n(the output was longer; prism keeps the first 16 MiB)\n";
constexpr size_t kRecentBytes = size_t{1} << 16U;  // of output, always kept
constexpr int kStackLooks = 500;                   // checks for the stacks of a process, with short
                                                   // sleeps between
constexpr int64_t kStackNapNs = 1'000'000;

// The sandbox processes of this process as a whole. What they leave behind is killed when the last
// one has gone, since an orphan does not show whose it was.
struct Family {
  std::set<pid_t> others;  // children of this process that no sandbox process has started
  size_t alive = 0;
};

Guard& TheGuard() {
  static Guard guard;
  return guard;
}

// The guard is not one of them.
Family& TheFamily() {
  TheGuard();
  static Family family = {.others = AdoptOrphans()};
  return family;
}

// A variable that a program is given unless the user sets it, because two runs, or two iterations,
// would differ otherwise.
struct AssumedVariable {
  const char* name;
  const char* value;
  const char* effect;
};

constexpr AssumedVariable kAssumedVariables[] = {
    // Otherwise two runs would allocate in different orders.
    {"PYTHONHASHSEED", "0", "Python's sets and dictionaries of strings have one order in all runs"},
    // torch hands out the 32 streams of a pool in turn, so that now and then a hook would get the
    // stream of the collectives, and iterations would differ.
    {"TORCH_NCCL_HIGH_PRIORITY", "1",
     "c10d's streams are of high priority, which torch takes from a pool of their own"},
};

// Variables of our own launcher: a program that saw them would believe that it is one of the
// launcher's ranks.
bool BelongsToLauncher(std::string_view name) {
  for (const std::string_view prefix : {"OMPI_", "PMIX_", "PMI_", "ORTE_", "HYDRA_"}) {
    if (name.substr(0, prefix.size()) == prefix) {
      return true;
    }
  }
  return false;
}

ChildVariables EnvironmentOfChild(const SandboxSpec& spec,
                                  int channel_descriptor,
                                  int stacks_descriptor,
                                  int launch_descriptor) {
  ChildVariables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != text.npos && !BelongsToLauncher(text.substr(0, equals))) {
      variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
    }
  }
  for (const std::string& name : spec.removed) {
    variables.erase(name);
  }
  for (const auto& [name, value] : spec.environment) {
    variables[name] = value;
  }
  for (const AssumedVariable& assumed : kAssumedVariables) {
    variables.try_emplace(assumed.name, assumed.value);
  }
  variables["PRISM_CHANNEL_FD"] = fmt::format("{}", channel_descriptor);
  variables[kGuardVariable] = TheGuard().mark();
  variables["PRISM_CHANNEL_PATH"] = fmt::format("/proc/{}/fd/{}", getpid(), channel_descriptor);
  variables["PRISM_STACK_FD"] = fmt::format("{}", stacks_descriptor);
  if (!spec.stand_in.empty()) {
    variables[channel::kStandInVariable] = spec.stand_in;
    variables["PRISM_LAUNCH_FILE"] = fmt::format("/proc/{}/fd/{}", getpid(), launch_descriptor);
  }
  return variables;
}

// "NAME=value" lines, ordered.
std::vector<std::string> Lines(const ChildVariables& variables) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) {
    lines.push_back(name + "=" + value);
  }
  return lines;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

struct ChildDescriptors {
  int output;
  int channel;
  int stacks;
  int inherited;  // -1: none
  bool terminal;
};

// Makes this process's group the one that reads from the terminal and gets its signals. Not an
// error if standard input is not a terminal.
void TakeForeground() {
  // A background process that tries this is stopped unless it blocks the signal.
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTTOU);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  tcsetpgrp(STDIN_FILENO, getpgrp());
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

// In the forked child: only calls that are safe there.
[[noreturn]] void RunChild(const ChildDescriptors& descriptors,
                           pid_t parent,
                           char** arguments,
                           char** environment) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(127);  // the worker died before the line above
  }
  if (descriptors.terminal) {
    TakeForeground();
  } else {
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(descriptors.output, STDOUT_FILENO);
    dup2(descriptors.output, STDERR_FILENO);
  }
  fcntl(descriptors.channel, F_SETFD, 0);
  fcntl(descriptors.stacks, F_SETFD, 0);
  if (descriptors.inherited >= 0) {
    fcntl(descriptors.inherited, F_SETFD, 0);
  }
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) {
    signal(number, SIG_DFL);
  }
  // Sets of pointers are ordered by address. The shim counts it if this is not permitted.
  personality(ADDR_NO_RANDOMIZE);
  execve(arguments[0], arguments, environment);
  const char* reason = strerror(errno);
  const ssize_t ignored = write(STDERR_FILENO, reason, strlen(reason));
  _exit(ignored > 0 ? 127 : 126);
}

constexpr std::string_view kStandInHelps =
    " for something that this machine lacks (with --stand-in its shapes and sizes stand for it)";

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const char* name = sigabbrev_np(number);
    return fmt::format("was killed by signal {} (SIG{})", number, name == nullptr ? "?" : name);
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(wait_status));
}

}  // namespace

std::vector<std::string> AssumedEnvironment() {
  std::vector<std::string> lines;
  for (const AssumedVariable& assumed : kAssumedVariables) {
    if (getenv(assumed.name) == nullptr) {
      lines.push_back(fmt::format("the program ran with {}={}: {}", assumed.name, assumed.value,
                                  assumed.effect));
    }
  }
  return lines;
}

namespace {

// A process of its own. -1 with errno set if there is none.
pid_t StartProgram(const SandboxSpec& spec,
                   const ChildVariables& variables,
                   const ChildDescriptors& descriptors) {
  std::vector<std::string> arguments = spec.command;
  std::vector<std::string> environment = Lines(variables);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    RunChild(descriptors, parent, const_cast<char**>(argument_pointers.data()),
             const_cast<char**>(environment_pointers.data()));
  }
  return pid;
}

}  // namespace

Result<std::unique_ptr<SandboxProcess>> SandboxProcess::Start(const SandboxSpec& spec,
                                                              ForkServer* server) {
  auto consumer = std::make_unique<channel::Consumer>(spec.config);
  std::array<int, 2> pipe_ends = {-1, -1};
  const int stacks = memfd_create("prism-stacks", MFD_CLOEXEC);
  const int launch = spec.stand_in.empty() ? -1 : memfd_create("prism-launch", MFD_CLOEXEC);
  if (!consumer->valid() || stacks < 0 || pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    close(stacks);
    close(launch);
    return EnvironmentLacks(fmt::format("rank {}: cannot open a channel to its process: {}",
                                        spec.rank.value(), strerror(errno)));
  }
  // Processes started later must not inherit this channel.
  fcntl(consumer->descriptor(), F_SETFD, FD_CLOEXEC);
  fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
  const ChildVariables variables = EnvironmentOfChild(spec, consumer->descriptor(), stacks, launch);
  Family& family = TheFamily();
  Result<pid_t> forked = EnvironmentLacks("no fork server");
  if (server != nullptr && server->Serves(spec)) {
    forked = server->Fork(
        variables, {.output = pipe_ends[1], .channel = consumer->descriptor(), .stacks = stacks});
  }
  const pid_t pid = forked.ok() ? *forked
                                : StartProgram(spec, variables,
                                               {.output = pipe_ends[1],
                                                .channel = consumer->descriptor(),
                                                .stacks = stacks,
                                                .inherited = spec.inherited,
                                                .terminal = spec.terminal});
  close(pipe_ends[1]);
  if (pid < 0) {
    close(pipe_ends[0]);
    close(stacks);
    close(launch);
    return EnvironmentLacks(
        fmt::format("rank {}: cannot start its process: {}", spec.rank.value(), strerror(errno)));
  }
  TheGuard().Watch(pid);
  setpgid(pid, pid);  // here too: the child may not have done it yet when we kill the group
  std::unique_ptr<SandboxProcess> process(new SandboxProcess(spec.rank, std::move(consumer)));
  process->pid_ = pid;
  ++family.alive;
  process->output_ = pipe_ends[0];
  process->stacks_ = stacks;
  process->launch_ = launch;
  process->has_terminal_ = spec.terminal;
  process->on_line_ = spec.on_line;
  process->forked_ = forked.ok();
  process->stands_in_ = variables.contains("PRISM_ABSENT_FILES");
  if (forked.ok()) {
    process->AddOutput(server->output().data(), server->output().size());
  }
  return process;
}

SandboxProcess::~SandboxProcess() {
  Kill();
  if (--TheFamily().alive == 0) {
    KillOrphans(TheFamily().others);
  }
  if (has_terminal_) {
    TakeForeground();
  }
  close(output_);
  close(stacks_);
  close(launch_);
}

void SandboxProcess::AddOutput(const char* data, size_t bytes) {
  if (log_.size() <= kMaxLogBytes) {
    const size_t room = kMaxLogBytes - log_.size();
    log_.append(data, std::min(bytes, room));
    log_.append(bytes > room ? kCutHere : "");
  }
  recent_.append(data, bytes);
  if (recent_.size() > 2 * kRecentBytes) {
    recent_.erase(0, recent_.size() - kRecentBytes);
  }
  if (!on_line_) {
    return;
  }
  partial_line_.append(data, bytes);
  size_t begin = 0;
  for (size_t end = 0; (end = partial_line_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    on_line_(partial_line_.substr(begin, end - begin));
  }
  partial_line_.erase(0, begin);
}

// The last line may lack its newline.
void SandboxProcess::EndOutput() {
  PumpOutput();
  if (on_line_ && !partial_line_.empty()) {
    on_line_(std::exchange(partial_line_, {}));
  }
}

void SandboxProcess::PumpOutput() {
  std::array<char, 16384> buffer;
  ssize_t count = 0;
  while ((count = read(output_, buffer.data(), buffer.size())) > 0) {
    AddOutput(buffer.data(), static_cast<size_t>(count));
  }
}

bool SandboxProcess::Exited() {
  if (wait_status_) {
    return true;
  }
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) {
    return false;
  }
  wait_status_ = status;
  EndOutput();
  return true;
}

Status SandboxProcess::ExitStatus(size_t lines) const {
  PRISM_CHECK(wait_status_.has_value());
  if (WIFEXITED(*wait_status_) && WEXITSTATUS(*wait_status_) == 0) {
    return OkStatus();
  }
  // What the dynamic loader prints, and its exit code.
  if (WIFEXITED(*wait_status_) && WEXITSTATUS(*wait_status_) == 127 &&
      log_.find("error while loading shared libraries") != std::string::npos) {
    return EnvironmentLacks(
        fmt::format("the program of rank {} lacks a library: {}; run ./run.sh, which installs it",
                    rank_.value(), TellingLines(log_, 1)));
  }
  if (log_.find(channel::kOtherVersion) != std::string::npos) {
    return EnvironmentLacks(
        fmt::format("the program of rank {} ran with a libprism_shim.so from another build: {}; "
                    "run ./run.sh, which rebuilds both",
                    rank_.value(), TellingLines(log_, 1)));
  }
  if (log_.find(channel::kNoAnswers) != std::string::npos) {
    return EnvironmentLacks(fmt::format("the program of rank {} cannot meet the others: {}",
                                        rank_.value(), TellingLines(log_, 1)));
  }
  const bool may_stand_in = !stands_in_ && LacksFile(recent_);
  return RunFailed(fmt::format("the program of rank {} {}{}; {}", rank_.value(),
                               DescribeExit(*wait_status_), may_stand_in ? kStandInHelps : "",
                               LastLines(lines)));
}

std::string SandboxProcess::LastLines(size_t count) const {
  const std::string lines = TellingLines(recent_, count);
  return lines.empty() ? "it printed nothing"
                       : fmt::format("its last lines:\n{}{}{}", lines, kOutputHeading, recent_);
}

std::string SandboxProcess::Stacks() {
  const int speaker = channel_->producer_process();
  if (wait_status_ || speaker <= 0 || kill(speaker, channel::StackSignal()) != 0) {
    return {};
  }
  std::string text;
  for (int look = 0; look < kStackLooks; ++look) {
    std::array<char, 4096> buffer;
    ssize_t count = 0;
    while ((count = pread(stacks_, buffer.data(), buffer.size(),
                          stacks_taken_ + static_cast<off_t>(text.size()))) > 0) {
      text.append(buffer.data(), static_cast<size_t>(count));
    }
    if (const size_t end = text.find('\0'); end != text.npos) {
      stacks_taken_ += static_cast<off_t>(end + 1);
      return text.substr(0, end);
    }
    const timespec nap = {.tv_sec = 0, .tv_nsec = kStackNapNs};
    nanosleep(&nap, nullptr);
  }
  return {};
}

std::string SandboxProcess::LaunchedWords() const {
  std::string words;
  std::array<char, 4096> buffer;
  ssize_t count = 0;
  while ((count = pread(launch_, buffer.data(), buffer.size(), static_cast<off_t>(words.size()))) >
         0) {
    words.append(buffer.data(), static_cast<size_t>(count));
  }
  return words;
}

void SandboxProcess::Kill() {
  if (pid_ <= 0) {
    return;
  }
  KillProcessGroup(pid_);  // what it started (data loaders) may outlive it
  if (wait_status_) {
    return;
  }
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  wait_status_ = status;
  EndOutput();
}

}  // namespace prism::launch
