// Which NVIDIA libraries a program links, and where the loader would find them: what the virtual
// device has to stand in for.
#pragma once

#include <string>
#include <vector>

#include "launch/process/replaced_libraries.h"

namespace prism::launch {

struct LinkedLibrary {
  std::string soname;
  const ReplacedLibrary* kind = nullptr;
  std::string path;  // "" if it is not installed
  int version = 0;   // as the library reports it; 0: unknown, or nobody asks for it
};

struct LinkedLibraries {
  std::vector<LinkedLibrary> replaced;  // in the order in which they are preloaded
  std::vector<std::string> users;       // files that link them
};

// Of programs and libraries that a program loads, with all that they need. Those that lie in the
// folders where the replaced ones are searched for belong to them, since extensions link them.
LinkedLibraries FindLinkedLibraries(const std::vector<std::string>& files);

}  // namespace prism::launch
