#include "shim/stack_writer.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <execinfo.h>

#include "shim/channel/messages.h"

namespace prism::shim {
namespace {

constexpr int kMaxFrames = 128;
constexpr int kOwnFrames = 2;  // the handler and the kernel's frame around it

// CPython's traceback writer for signal handlers (what faulthandler uses): takes no lock and
// allocates nothing. Interpreter and thread may be null: it then finds its own.
using WritePythonStacks = const char*(int descriptor, void* interpreter, void* thread);

// A signal handler can access only globals.
int stack_file = -1;
WritePythonStacks* write_python_stacks = nullptr;
int (*python_runs)() = nullptr;

void WriteMachineStack() {
  void* frames[kMaxFrames];
  const int count = backtrace(frames, kMaxFrames);
  if (count > kOwnFrames) {
    backtrace_symbols_fd(frames + kOwnFrames, count - kOwnFrames, stack_file);
  }
}

void OnStackSignal(int /*number*/) {
  const int saved = errno;
  if (write_python_stacks != nullptr && python_runs != nullptr && python_runs() != 0) {
    write_python_stacks(stack_file, nullptr, nullptr);
  } else {
    WriteMachineStack();
  }
  const char end = '\0';
  while (write(stack_file, &end, 1) < 0 && errno == EINTR) {
  }
  errno = saved;
}

}  // namespace

void InstallStackWriter() {
  const char* const text = getenv("PRISM_STACK_FD");
  if (text == nullptr) {
    return;
  }
  stack_file = static_cast<int>(strtol(text, nullptr, 10));
  write_python_stacks =
      reinterpret_cast<WritePythonStacks*>(dlsym(RTLD_DEFAULT, "_Py_DumpTracebackThreads"));
  python_runs = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  void* warm_up[1];
  backtrace(warm_up, 1);  // loads what it needs now, not in the handler
  struct sigaction action = {};
  action.sa_handler = OnStackSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(channel::StackSignal(), &action, nullptr);
}

}  // namespace prism::shim
