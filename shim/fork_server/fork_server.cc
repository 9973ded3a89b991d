// The worker's messages are packets on a Unix socket: one asks for one rank, with its variables as
// text and three descriptors (output, channel, stacks). The fork is a double one, with the process
// in between gone at once, so that the rank becomes the worker's own child (a worker is the reaper
// of what its programs leave behind).
#include "shim/fork_server/fork_server.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include <dirent.h>

#include "shim/channel/fork_request.h"
#include "shim/clock/real_time.h"
#include "shim/fork_server/imports.h"
#include "shim/python_code.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

constexpr int64_t kParentNapNs = 20'000;

// Written before main, by the one thread that exists then.
struct Server {
  int socket = -1;
  pid_t process = 0;
  std::string variables;  // ":RANK:LOCAL_RANK:"
  // Why no rank may be forked, null if one may. Shared with the children that the server forks by
  // itself, which may have closed the socket.
  std::atomic<const char*>* gave_up = nullptr;
};

bool forks_rank = false;

Server* TheServer() {
  static auto* const server = new Server();
  return server;
}

void DoNothing() {
}

// CPython's calls around a fork, which os.fork makes too; nothing in a program without Python.
struct PythonFork {
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  void (*before)() = DoNothing;
  void (*after_parent)() = DoNothing;
  void (*after_child)() = DoNothing;
};

bool FindPythonFork(PythonFork* python) {
  return FindPythonCall("PyGILState_Ensure", &python->ensure) &&
         FindPythonCall("PyGILState_Release", &python->release) &&
         FindPythonCall("PyOS_BeforeFork", &python->before) &&
         FindPythonCall("PyOS_AfterFork_Parent", &python->after_parent) &&
         FindPythonCall("PyOS_AfterFork_Child", &python->after_child);
}

// Threads of libraries that are made for a fork: the child does without.
constexpr std::string_view kMayBeLost[] = {"jemalloc_bg_thd\n"};

bool MayBeLost(const char* thread) {
  char name[32] = {};
  const std::string path = std::string("/proc/self/task/") + thread + "/comm";
  FILE* const file = fopen(path.c_str(), "re");
  if (file == nullptr) {
    return true;  // it has ended
  }
  const size_t bytes = fread(name, 1, sizeof(name), file);
  fclose(file);
  return std::ranges::find(kMayBeLost, std::string_view(name, bytes)) != std::end(kMayBeLost);
}

// That a fork would end.
size_t Threads() {
  size_t threads = 0;
  DIR* const folder = opendir("/proc/self/task");
  while (folder != nullptr) {
    const dirent* const entry = readdir(folder);
    if (entry == nullptr) {
      closedir(folder);
      break;
    }
    threads += entry->d_name[0] == '.' || MayBeLost(entry->d_name) ? 0 : 1;
  }
  return threads;
}

[[noreturn]] void Leave() {
  syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

// A worker that has gone does not matter here.
void TellWorker(const void* bytes, size_t size) {
  const ssize_t ignored = send(TheServer()->socket, bytes, size, MSG_NOSIGNAL);
  (void)ignored;
}

[[noreturn]] void Decline(const char* why) {
  TellWorker(why, strlen(why));
  Leave();
}

struct Request {
  std::string
      text;  // "NAME=value" for each variable, "NAME" for one that is not set; each ends in 0
  std::array<int, channel::kForkDescriptors> descriptors;
};

bool Receive(Request* request) {
  request->text.resize(channel::kMaxForkRequest);
  iovec part = {.iov_base = request->text.data(), .iov_len = request->text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(request->descriptors))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t bytes =
      TEMP_FAILURE_RETRY(recvmsg(TheServer()->socket, &message, MSG_CMSG_CLOEXEC));
  if (bytes == 1) {
    request->text.resize(1);  // without descriptors
    return true;
  }
  const cmsghdr* const head = bytes <= 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(sizeof(request->descriptors))) {
    return false;
  }
  memcpy(request->descriptors.data(), CMSG_DATA(head), sizeof(request->descriptors));
  request->text.resize(static_cast<size_t>(bytes));
  return true;
}

void AppendBytes(std::string_view text, std::string* source) {
  *source += "b'";
  for (const char c : text) {
    char digits[8] = {};
    snprintf(digits, sizeof(digits), "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(c)));
    *source += digits;
  }
  *source += "'";
}

bool HasLibtorch() {
  const auto is_libtorch = [](dl_phdr_info* info, size_t, void*) {
    return strstr(info->dlpi_name, "/libtorch") == nullptr ? 0 : 1;
  };
  return dl_iterate_phdr(is_libtorch, nullptr) != 0;
}

// Sets the variables in C, and returns Python source that puts back os.environ's own dictionary
// (sitecustomize.py) and does the same there. numpy's global generator is seeded from the system
// when numpy is imported; Python's own takes a new seed after every fork.
std::string SetVariables(const std::string& text) {
  std::string source =
      "import os, posix, sys\n"
      "seen, own = os.environ._data, posix.environ\n"
      "if seen is not own:\n"
      "    now = dict(dict.items(seen))\n"
      "    own.clear()\n"
      "    own.update(now)\n"
      "    os.environ._data = os.environb._data = own\n";
  for (size_t begin = 0; begin < text.size(); begin += strlen(text.c_str() + begin) + 1) {
    const std::string entry = text.c_str() + begin;
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos) {
      unsetenv(name.c_str());
      continue;
    }
    setenv(name.c_str(), entry.c_str() + equals + 1, 1);
    source += "own[";
    AppendBytes(name, &source);
    source += "] = ";
    AppendBytes(std::string_view(entry).substr(equals + 1), &source);
    source += "\n";
  }
  return source +
         "random = sys.modules.get('numpy.random')\n"
         "if random is not None:\n"
         "    random.seed()\n";
}

// The descriptor keeps the number that the variable states, which programs that this one starts
// read too.
void PutDescriptor(const char* variable, int descriptor) {
  const char* const number = getenv(variable);
  if (number != nullptr) {
    dup2(descriptor, static_cast<int>(strtol(number, nullptr, 10)));
  }
  close(descriptor);
}

// In the new process, the child of one that ends at once.
void JoinWorker(pid_t between) {
  setpgid(0, 0);
  const timespec nap = {.tv_sec = 0, .tv_nsec = kParentNapNs};
  while (getppid() == between) {
    syscall(SYS_nanosleep, &nap, nullptr);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != SessionChannel()->worker_process) {
    Leave();  // the worker has gone
  }
}

std::string StartRank(const Request& request, pid_t between) {
  JoinWorker(between);
  const pid_t self = getpid();
  TellWorker(&self, sizeof(self));
  close(TheServer()->socket);
  dup2(request.descriptors[0], STDOUT_FILENO);
  dup2(request.descriptors[0], STDERR_FILENO);
  close(request.descriptors[0]);
  PutDescriptor("PRISM_CHANNEL_FD", request.descriptors[1]);
  PutDescriptor("PRISM_STACK_FD", request.descriptors[2]);
  std::string source = SetVariables(request.text);
  serves_forks.store(false, std::memory_order_release);
  return source;
}

RealFunction<pid_t(pid_t, int*, int)> real_waitpid("waitpid");

constexpr int kServesNoLonger = 2;  // exit code of a copy that was told kForkWithoutImports

enum class Copied : uint8_t { kIsCopy, kHasServed, kNotMade };

// The original waits for as long as its copy serves.
Copied CopyWithImports(const PythonFork& python, const std::string& left_out, int end) {
  python.before();
  forks_rank = true;
  const pid_t copy = fork();
  forks_rank = false;
  if (copy == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    TheServer()->process = getpid();
    python.after_child();
    ImportAhead(left_out, end);
    return Copied::kIsCopy;
  }
  python.after_parent();
  int status = 0;
  if (copy < 0 || real_waitpid.get()(copy, &status, 0) != copy) {
    return Copied::kNotMade;
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (code != kServesNoLonger && code != kLeftImports) {
    Leave();
  }
  return code == kLeftImports ? Copied::kNotMade : Copied::kHasServed;
}

// A copy that meets a module that must be left out ends; the next one leaves that out, and the last
// one all that come behind.
Copied CopyWithImports(const PythonFork& python) {
  constexpr int kMostCopies = 4;
  std::string left_out;
  Copied copied = Copied::kNotMade;
  int last = 0;
  for (int i = 1; i <= kMostCopies && copied == Copied::kNotMade && HasImports() && last >= 0;
       ++i) {
    copied = CopyWithImports(python, left_out, i == kMostCopies ? last : INT_MAX);
    last = ImportedLast();
    left_out.append(std::to_string(last)).append(",");
  }
  return copied;
}

// Forks for each request; returns in a rank, with Python source to run.
std::string Serve(const PythonFork& python) {
  bool is_copy = false;
  while (true) {
    Request request;
    if (!Receive(&request)) {
      Leave();  // nobody will ask any more
    }
    if (request.text == channel::kForkWithoutImports) {
      if (is_copy) {
        syscall(SYS_exit_group, kServesNoLonger);
      }
      continue;
    }
    if (request.text == channel::kImportAhead) {
      const Copied copied = CopyWithImports(python);
      is_copy = copied == Copied::kIsCopy;
      if (copied != Copied::kHasServed) {
        TellWorker(channel::kForkServerReady, strlen(channel::kForkServerReady));
      }
      continue;
    }
    python.before();
    forks_rank = true;
    const pid_t between = fork();
    if (between == 0) {
      const pid_t self = getpid();
      if (fork() != 0) {
        Leave();
      }
      std::string source = StartRank(request, self);
      python.after_child();
      forks_rank = false;
      return source;
    }
    forks_rank = false;
    python.after_parent();
    real_waitpid.get()(between, nullptr, 0);
    for (const int descriptor : request.descriptors) {
      close(descriptor);
    }
  }
}

}  // namespace

void OpenForkServer() {
  const char* const text = getenv(channel::kForkServerVariable);
  if (text == nullptr) {
    return;
  }
  Server* const server = TheServer();
  char* names = nullptr;
  server->socket = static_cast<int>(strtol(text, &names, 10));
  server->process = getpid();
  server->variables = std::string(names) + ":";
  void* const shared = mmap(nullptr, sizeof(*server->gave_up), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    Decline("no memory can be shared with its children");
  }
  server->gave_up = new (shared) std::atomic<const char*>(nullptr);
  serves_forks.store(true, std::memory_order_release);
}

bool ForksRank() {
  return forks_rank;
}

void RestoreEnvironment() {
  unsetenv(channel::kForkServerVariable);
  unsetenv(channel::kImportsVariable);
  if (const char* const inherited = getenv("PRISM_PYTHONPATH"); inherited != nullptr) {
    setenv("PYTHONPATH", inherited, 1);
    unsetenv("PRISM_PYTHONPATH");
  } else {
    unsetenv("PYTHONPATH");
  }
}

bool DiffersByRank(std::string_view variable) {
  const std::string& all = TheServer()->variables;
  size_t found = all.find(variable);
  while (found != std::string::npos &&
         (found == 0 || all[found - 1] != ':' || all[found + variable.size()] != ':')) {
    found = all.find(variable, found + 1);
  }
  return found != std::string::npos && !variable.empty();
}

void BecomeRankOrGiveUp(const char* why) {
  if (ServesForks() && getpid() != TheServer()->process) {
    if (ImportsAhead()) {
      SpoilImport();
      return;
    }
    TheServer()->gave_up->store(why);
  }
  BecomeRank();
}

void ServeForks() {
  const Server* const server = TheServer();
  if (getpid() != server->process) {
    return;
  }
  if (ImportsAhead()) {
    LeaveImports();
  }
  if (const char* const why = server->gave_up->load(); why != nullptr) {
    Decline(why);
  }
  PythonFork python;
  const bool is_python = FindPythonFork(&python);
  if (!is_python && !HasLibtorch()) {
    Decline("it is neither a Python program nor one of libtorch's");  // such as a shell
  }
  if (syscall(SYS_gettid) != server->process) {
    Decline("another thread than the main one was the first to need the rank");
  }
  if (getppid() != SessionChannel()->worker_process) {
    Decline("another program has started it");
  }
  if (is_python && getenv(channel::kForkServerVariable) != nullptr) {
    Decline("its Python ignores PYTHONPATH");
  }
  if (Threads() != 1) {
    Decline("a thread lives when the rank is first needed");
  }
  if (!is_python) {
    RestoreEnvironment();
    TellWorker(channel::kForkServerReady, strlen(channel::kForkServerReady));
    Serve(PythonFork());
    BeginAsRank();
    return;
  }
  const int state = python.ensure();
  RunPython("import os\nos.environ._data.look()", "prism_environment");
  TellWorker(channel::kForkServerReady, strlen(channel::kForkServerReady));
  const std::string source = Serve(python);
  BeginAsRank();
  RunPython(source.c_str(), "prism_rank_variables");
  python.release(state);
}

}  // namespace prism::shim

// For sitecustomize.py.
extern "C" __attribute__((visibility("default"))) void prism_shim_decline_forks(const char* why) {
  prism::shim::Decline(why);
}

extern "C" __attribute__((visibility("default"))) void prism_shim_become_rank() {
  prism::shim::BecomeRankOrGiveUp("a process that it has forked itself needs the rank");
}
