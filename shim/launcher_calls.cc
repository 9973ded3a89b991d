// The launchers that a script starts (torchrun, srun, ...), however it names them: by PATH, by a
// path of its own, through env or timeout. In their place starts the program that PRISM_LAUNCH
// names, with the launcher's path and arguments (launch/cli/stand_in.cc). Without that variable
// nothing changes, except that a fork server sees what it starts (fork_server/fork_server.h).
//
// May run in a child of vfork: allocates nothing.
#include <dlfcn.h>
#include <spawn.h>
#include <unistd.h>

#include <cstring>

#include <alloca.h>

#include "shim/channel/launcher_names.h"
#include "shim/fork_server/fork_server.h"

namespace {

using prism::channel::kStandInVariable;

// What is started in place of a launcher; null if nothing is.
const char* StandIn(const char* path, char* const* arguments, char* const* environment) {
  if (path == nullptr || arguments == nullptr || environment == nullptr || *arguments == nullptr) {
    return nullptr;
  }
  const size_t length = strlen(kStandInVariable);
  const char* program = nullptr;
  for (char* const* entry = environment; *entry != nullptr && program == nullptr; ++entry) {
    if (strncmp(*entry, kStandInVariable, length) == 0 && (*entry)[length] == '=') {
      program = *entry + length + 1;
    }
  }
  return program != nullptr && prism::channel::LauncherPlace(arguments) >= 0 ? program : nullptr;
}

size_t CountOf(char* const* arguments) {
  size_t count = 0;
  while (arguments[count] != nullptr) {
    ++count;
  }
  return count;
}

// Calls `start` with the program, the arguments and the environment that are to be used.
template <typename Start>
int Started(const char* path, char* const* arguments, char* const* environment, Start start) {
  environment = prism::shim::SeeProgram(path, environment);
  const char* const stand_in = StandIn(path, arguments, environment);
  if (stand_in == nullptr) {
    return start(path, arguments, environment);
  }
  const size_t count = CountOf(arguments);
  auto** const words = static_cast<char**>(alloca((count + 1) * sizeof(char*)));
  memcpy(words, arguments, (count + 1) * sizeof(char*));
  words[0] = const_cast<char*>(path);
  return start(stand_in, words, environment);
}

using Exec = int (*)(const char*, char* const*);
using ExecIn = int (*)(const char*, char* const*, char* const*);
using Spawn = int (*)(pid_t*,
                      const char*,
                      const posix_spawn_file_actions_t*,
                      const posix_spawnattr_t*,
                      char* const*,
                      char* const*);

// Found when the library is loaded: a child of vfork may not ask the loader.
template <typename Call>
Call Real(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}
const auto real_execv = Real<Exec>("execv");
const auto real_execvp = Real<Exec>("execvp");
const auto real_execve = Real<ExecIn>("execve");
const auto real_execvpe = Real<ExecIn>("execvpe");
const auto real_posix_spawn = Real<Spawn>("posix_spawn");
const auto real_posix_spawnp = Real<Spawn>("posix_spawnp");

}  // namespace

extern "C" {

// With the program's own environment, and with a given one.
#define PRISM_EXEC(name)                                                            \
  int name(const char* program, char* const arguments[]) {                          \
    return Started(program, arguments, environ,                                     \
                   [](const char* file, char* const* words, char* const* /*own*/) { \
                     return real_##name(file, words);                               \
                   });                                                              \
  }
#define PRISM_EXEC_IN(name)                                                           \
  int name(const char* program, char* const arguments[], char* const environment[]) { \
    return Started(program, arguments, environment, real_##name);                     \
  }
#define PRISM_SPAWN(name)                                                                      \
  int name(pid_t* process, const char* program, const posix_spawn_file_actions_t* actions,     \
           const posix_spawnattr_t* attributes, char* const arguments[],                       \
           char* const environment[]) {                                                        \
    return Started(program, arguments, environment,                                            \
                   [&](const char* file, char* const* words, char* const* variables) {         \
                     return real_##name(process, file, actions, attributes, words, variables); \
                   });                                                                         \
  }
PRISM_EXEC(execv)
PRISM_EXEC(execvp)
PRISM_EXEC_IN(execve)
PRISM_EXEC_IN(execvpe)
PRISM_SPAWN(posix_spawn)
PRISM_SPAWN(posix_spawnp)
}
