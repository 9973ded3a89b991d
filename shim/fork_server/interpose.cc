// libc's calls by which a program in a fork server (fork_server.h) could see that it is one: it
// reads a variable that differs by rank, makes a temporary folder of its own, starts another
// program, or has registered what is to happen in a forked child, as libtorch does to refuse CUDA
// there.
//
// A program that this one starts by fork and exec is seen only in the child, where it is too late
// to become a rank: the fork server then gives up, unless the program is one that libraries ask
// when they are imported and that answers all ranks alike.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "shim/clock/real_time.h"
#include "shim/fork_server/fork_server.h"
#include "shim/fork_server/imports.h"

extern char** environ;

namespace prism::shim {
namespace {

using Handler = void();

constexpr size_t kMaxHandlers = 16;

std::array<Handler*, kMaxHandlers> handlers;
std::atomic<size_t> handler_count{0};

template <size_t Index>
void RunUnlessRank() {
  if (!ForksRank()) {
    handlers[Index]();
  }
}

template <size_t... Indices>
constexpr std::array<Handler*, kMaxHandlers> MakeWrappers(std::index_sequence<Indices...>) {
  return {&RunUnlessRank<Indices>...};
}

constexpr std::array<Handler*, kMaxHandlers> kWrappers =
    MakeWrappers(std::make_index_sequence<kMaxHandlers>());

bool IsOfLibtorch(Handler* handler) {
  Dl_info info = {};
  return handler != nullptr && dladdr(reinterpret_cast<const void*>(handler), &info) != 0 &&
         info.dli_fname != nullptr && strstr(info.dli_fname, "libtorch") != nullptr;
}

Handler* WrapChildHandler(Handler* handler) {
  if (!ServesForks() || !IsOfLibtorch(handler)) {
    return handler;
  }
  const size_t index = handler_count.fetch_add(1);
  if (index >= kMaxHandlers) {
    return handler;
  }
  handlers[index] = handler;
  return kWrappers[index];
}

constexpr std::string_view kAnswersAllAlike[] = {"ldconfig", "gcc",   "cc",   "g++",    "c++",
                                                 "ld",       "uname", "nvcc", "file",   "lscpu",
                                                 "which",    "git",   "ps",   "objdump"};

using RegisterAtFork = int(Handler*, Handler*, Handler*, void*);
RealFunction<RegisterAtFork> real_register("__register_atfork");
RealFunction<int(const char*)> real_system("system");
RealFunction<int(const char*, mode_t)> real_mkdir("mkdir");
RealFunction<char*(const char*)> real_getenv("getenv");
RealFunction<int(const char*, const char*, int)> real_setenv("setenv");
RealFunction<int(const char*)> real_unsetenv("unsetenv");
RealFunction<int(char*)> real_putenv("putenv");

}  // namespace

char* const* SeeProgram(const char* path, char* const* environment) {
  if (!ServesForks()) {
    return environment;
  }
  std::string_view name = path;
  name.remove_prefix(name.rfind('/') + 1);
  if (std::ranges::find(kAnswersAllAlike, name) != std::end(kAnswersAllAlike)) {
    return environment;
  }
  const bool is_own = environment == environ;
  BecomeRankOrGiveUp("it starts other programs before it needs its rank");
  return is_own ? environ : environment;
}

}  // namespace prism::shim

PRISM_INTERPOSED char* getenv(const char* name) noexcept {
  if (prism::shim::ServesForks() && prism::shim::DiffersByRank(name)) {
    prism::shim::BecomeRankOrGiveUp("a process that it has forked itself needs the rank");
  }
  prism::shim::SeeVariableRead(name);
  return prism::shim::real_getenv.get()(name);
}

PRISM_INTERPOSED int setenv(const char* name, const char* value, int overwrite) noexcept {
  if (name != nullptr) {
    prism::shim::SeeVariableSet(name, value);
  }
  return prism::shim::real_setenv.get()(name, value, overwrite);
}

PRISM_INTERPOSED int unsetenv(const char* name) noexcept {
  prism::shim::SeeVariableSet(name, nullptr);
  return prism::shim::real_unsetenv.get()(name);
}

PRISM_INTERPOSED int putenv(char* text) noexcept {
  const std::string_view entry = text;
  const std::string name(entry.substr(0, entry.find('=')));
  prism::shim::SeeVariableSet(name, entry.size() == name.size() ? nullptr : text + name.size() + 1);
  return prism::shim::real_putenv.get()(text);
}

PRISM_INTERPOSED int __register_atfork(prism::shim::Handler* prepare,
                                       prism::shim::Handler* parent,
                                       prism::shim::Handler* child,
                                       void* library) {
  return prism::shim::real_register.get()(prepare, parent, prism::shim::WrapChildHandler(child),
                                          library);
}

// A folder for this process alone, which all ranks would share.
PRISM_INTERPOSED int mkdir(const char* path, mode_t mode) noexcept {
  constexpr mode_t kOwnersOnly = 0700;
  if (prism::shim::ServesForks() && mode == kOwnersOnly) {
    prism::shim::BecomeRankOrGiveUp("a process that it has forked itself makes a folder");
  }
  return prism::shim::real_mkdir.get()(path, mode);
}

PRISM_INTERPOSED int system(const char* command) {
  prism::shim::SeeProgram("sh", environ);
  return prism::shim::real_system.get()(command);
}
