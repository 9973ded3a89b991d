// --stand-in: shim/absent_files.py runs in the program's interpreter when it starts, which
// fork_server/sitecustomize.py sees to.
#include "shim/absent_files_source.h"
#include "shim/python_code.h"
#include "shim/session.h"

extern "C" __attribute__((visibility("default"))) void prism_shim_stand_in() {
  using prism::shim::PythonRun;
  if (prism::shim::RunPythonChanges(prism::shim::kAbsentFilesSource, "prism_absent_files") ==
      PythonRun::kFailed) {
    prism::shim::Count("stand_in_failed");
  }
}
