#include "shim/rendezvous/python_hooks.h"

#include <mutex>
#include <string>

#include "shim/observer/observer_calls.h"
#include "shim/python_code.h"
#include "shim/rendezvous/absent_ranks_source.h"

namespace prism::shim {
namespace {

thread_local std::vector<uint64_t> members_from_python;

// Called from Python by its address, since this library's symbols are local.
void ExpectMembers(const uint64_t* ranks, size_t count) {
  members_from_python.assign(ranks, ranks + count);
}

}  // namespace

const std::vector<uint64_t>& MembersFromPython() {
  return members_from_python;
}

void RunPythonHooks() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string source =
        "_EXPECT_MEMBERS = " + std::to_string(reinterpret_cast<uintptr_t>(&ExpectMembers)) + "\n" +
        kAbsentRanksSource;
    if (RunPython(source.c_str(), "prism_absent_ranks") == PythonRun::kFailed) {
      prism_shim_count("rendezvous_python_failed");
    }
  });
}

}  // namespace prism::shim
