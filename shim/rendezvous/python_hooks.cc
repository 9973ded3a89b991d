#include "shim/rendezvous/python_hooks.h"

#include <mutex>

#include "shim/observer/observer_calls.h"
#include "shim/python_code.h"
#include "shim/rendezvous/absent_ranks_source.h"

namespace prism::shim {

void RunPythonHooks() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (RunPython(kAbsentRanksSource, "prism_absent_ranks") == PythonRun::kFailed) {
      prism_shim_count("rendezvous_python_failed");
    }
  });
}

}  // namespace prism::shim
