#include "shim/fork_server/imports.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

#include "shim/channel/fork_request.h"
#include "shim/fork_server/fork_server.h"
#include "shim/python_code.h"

namespace prism::shim {
namespace {

// Shared by a fork server with its copies and what they fork.
struct Progress {
  std::atomic<int> module{-1};  // by number in the log
  std::atomic<bool> spoilt{false};
};

channel::ImportLog* import_log = nullptr;
Progress* progress = nullptr;
pid_t noting_process = 0;        // 0: nothing is noted here
std::string* watched = nullptr;  // ":A:B:", variables that no module may look at now

// With its 0.
std::string Entry(char kind, std::string_view name, const char* value) {
  std::string entry(1, kind);
  entry += name;
  if (value != nullptr) {
    entry += '=';
    entry += value;
  }
  entry += '\0';
  return entry;
}

void Note(const std::string& entry) {
  if (noting_process == 0 || getpid() != noting_process) {
    return;
  }
  const auto bytes = static_cast<uint32_t>(entry.size());
  const uint32_t begin = import_log->bytes.fetch_add(bytes);
  if (size_t{begin} + bytes <= import_log->text.size()) {
    memcpy(import_log->text.data() + begin, entry.data(), bytes);
  }
}

std::string_view NotedText() {
  if (import_log == nullptr) {
    return {};
  }
  return {import_log->text.data(),
          std::min(size_t{import_log->bytes.load()}, import_log->text.size())};
}

template <typename Shared>
Shared* Map(int flags, int descriptor) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

}  // namespace

void OpenImports() {
  const char* const path = getenv(channel::kImportsVariable);
  const int descriptor = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    return;
  }
  import_log = Map<channel::ImportLog>(0, descriptor);
  close(descriptor);
  if (import_log == nullptr) {
    return;
  }
  if (!ServesForks()) {
    if (int (*is_python)() = nullptr; FindPythonCall("Py_IsInitialized", &is_python)) {
      noting_process = getpid();
    } else {
      RestoreEnvironment();
    }
    return;
  }
  void* const memory = Map<Progress>(MAP_ANONYMOUS, -1);
  progress = memory == nullptr ? nullptr : new (memory) Progress();
  watched = new std::string();
}

void LeaveImports() {
  syscall(SYS_exit_group, kLeftImports);
  __builtin_unreachable();
}

void SpoilImport() {
  progress->spoilt = true;
}

void SeeVariableRead(std::string_view name) {
  if (!ImportsAhead()) {
    return;
  }
  std::string wanted(":");
  wanted.append(name).append(":");
  if (watched->find(wanted) != std::string::npos) {
    LeaveImports();
  }
}

void SeeVariableSet(std::string_view name, const char* value) {
  const std::string entry = Entry('=', name, value);
  if (ImportsAhead() && NotedText().find(entry) == std::string_view::npos) {
    LeaveImports();
  }
  Note(entry);
}

bool HasImports() {
  return progress != nullptr && !NotedText().empty();
}

void ImportAhead(std::string_view left_out, int end) {
  progress->module = -1;
  progress->spoilt = false;
  imports_ahead.store(true, std::memory_order_release);
  std::string source("import os\nos.environ._data.import_ahead([");
  source.append(left_out).append("], ").append(std::to_string(end)).append(")\n");
  if (RunPython(source.c_str(), "prism_imports") != PythonRun::kDone) {
    LeaveImports();
  }
  imports_ahead.store(false, std::memory_order_release);
}

int ImportedLast() {
  return progress->module;
}

}  // namespace prism::shim

// For sitecustomize.py.
extern "C" {

#define PRISM_VISIBLE __attribute__((visibility("default")))

PRISM_VISIBLE void prism_shim_note_import(const char* module) {
  prism::shim::Note(prism::shim::Entry('+', module, nullptr));
}

PRISM_VISIBLE void prism_shim_look_at(const char* variable) {
  prism::shim::SeeVariableRead(variable);
}

PRISM_VISIBLE const char* prism_shim_noted(size_t* bytes) {
  *bytes = prism::shim::NotedText().size();
  return prism::shim::NotedText().data();
}

// The module with that number comes next; no module may look at these variables (":A:B:").
PRISM_VISIBLE void prism_shim_imports(int module, const char* variables) {
  prism::shim::progress->module = module;
  *prism::shim::watched = variables;
}

// Whether the module was spoilt in another process.
PRISM_VISIBLE int prism_shim_import_spoilt() {
  return prism::shim::progress->spoilt ? 1 : 0;
}

PRISM_VISIBLE void prism_shim_leave_imports() {
  prism::shim::LeaveImports();
}
}
