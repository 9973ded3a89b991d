#include "shim/sibling_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

namespace prism::shim {
namespace {

// Whether a mapped library is libtorch_cpu of another folder than that of the torch in `data`.
int IsOtherTorch(dl_phdr_info* info, size_t /*size*/, void* data) {
  constexpr const char* kLibrary = "/libtorch_cpu.so";
  char expected[PATH_MAX] = {};
  struct stat ours = {};
  struct stat mapped = {};
  snprintf(expected, sizeof(expected), "%s/lib%s", static_cast<const char*>(data), kLibrary);
  const char* const end = info->dlpi_name == nullptr ? nullptr : strstr(info->dlpi_name, kLibrary);
  return end != nullptr && stat(expected, &ours) == 0 && stat(info->dlpi_name, &mapped) == 0 &&
                 (ours.st_ino != mapped.st_ino || ours.st_dev != mapped.st_dev)
             ? 1
             : 0;
}

}  // namespace

void* OpenForTorch(const char* name, const char* loss) {
  const char* const folder = getenv(kTorchLibrariesVariable);
  const char* const torch = getenv(kTorchVariable);
  char path[PATH_MAX] = {};
  snprintf(path, sizeof(path), "%s/%s", folder == nullptr ? "" : folder, name);
  const char* reason =
      "it was not known that the program uses torch; name its interpreter in "
      "PRISM_PYTHON";
  const char* advice = "";
  void* library = nullptr;
  if (torch != nullptr && dl_iterate_phdr(&IsOtherTorch, const_cast<char*>(torch)) != 0) {
    reason =
        "the program uses another torch than that of its command; name its interpreter in "
        "PRISM_PYTHON";
  } else if (folder != nullptr) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    reason = library == nullptr ? dlerror() : "";
    advice = "; remove this file and start again, which builds it anew";
  }
  if (library == nullptr) {
    fprintf(stderr, "prism shim: %s: %s%s\n", loss, reason, advice);
  }
  return library;
}

}  // namespace prism::shim
