// The one table of the NVIDIA libraries that the virtual device stands in for, whatever their
// version: what their calls refuse with, whose handles they have, where their version is written.
// A library that is not in the table is left alone, because it works without a device (NVRTC,
// nvJitLink, NVTX).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace prism::launch {

struct ReplacedLibrary {
  std::string_view stem;    // of "libcublas.so.12": libcublas
  std::string_view prefix;  // of its names
  int64_t refusal;          // its own code for "not supported"
  uint8_t handle;           // HandleKind in shim/virtual_device/library_call.h
  // Where its version is written: the macros of a header, and what each part counts in the number
  // that the library reports. "" for a library whose version nobody asks for.
  std::string_view header;
  std::array<std::string_view, 3> macros;
  std::array<int, 3> steps;
};

// In the order in which they are preloaded.
const std::vector<ReplacedLibrary>& ReplacedLibraries();

// nullptr for a library that is left alone.
const ReplacedLibrary* FindReplaced(std::string_view soname);

// Whose call a name is by its letters; nullptr if nobody's.
const ReplacedLibrary* OwnerOf(std::string_view name);

// Whether a name that such a library exports is a call of CUDA, and not a private copy of something
// else.
bool IsCall(std::string_view name);

// What a call does that the shim does not define: the words of
// shim/virtual_device/library_calls.txt as a number (LibraryCall in library_call.h); nothing for a
// call that is refused.
std::optional<int64_t> DescribedCall(const ReplacedLibrary& library, std::string_view name);

// What a refused call returns: 0 where a code would be mistaken for an address.
int64_t RefusalOf(const ReplacedLibrary& library, std::string_view name);

// Whether the call returns the text of an error.
bool ReturnsText(std::string_view name);

// Names that a library has although the file at hand does not: those of the driver, which comes
// with a GPU, and those that later versions added and that extensions in use link.
std::vector<std::string_view> AdditionalNames(const ReplacedLibrary& library);

// A number that changes with the tables and descriptions.
uint64_t ReplacedLibrariesHash();

}  // namespace prism::launch
