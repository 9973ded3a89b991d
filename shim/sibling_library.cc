#include "shim/sibling_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

namespace prism::shim {

void* OpenSibling(const char* name) {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void*>(&OpenSibling), &self) == 0 ||
      self.dli_fname == nullptr) {
    return nullptr;
  }
  const char* const slash = strrchr(self.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname + 1);
  char path[PATH_MAX] = {};
  const int written = snprintf(path, sizeof(path), "%.*s%s", folder, self.dli_fname, name);
  const bool fits = written > 0 && static_cast<size_t>(written) < sizeof(path);
  return fits ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
}

}  // namespace prism::shim
