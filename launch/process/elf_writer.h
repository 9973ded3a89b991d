// Writes shared libraries for x86-64 without a compiler or linker: functions that load two
// registers and go on in another library, numbers, and zeroed data, under given names and versions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace prism::launch {

enum class MemberKind : uint8_t {
  kForward,  // a function with its name in rdi and `value` in rsi: target(name, value)
  kCall,     // a function with its name in r10 and `value` in r11, its own arguments kept
  kNumber,   // int32_t `value`
  kZeroes,   // `value` bytes
};

struct LibraryMember {
  std::string_view name;
  std::string_view version;  // "" or one of the library's
  MemberKind kind = MemberKind::kForward;
  int64_t value = 0;
  size_t target = 0;               // place in LibraryImage::targets of the function that goes on
  bool is_hidden_version = false;  // found only under its version
};

struct LibraryImage {
  std::string soname;
  std::string needed;                // the library with the targets
  std::string search_path;           // its folder
  std::vector<std::string> targets;  // names of functions in it
  std::vector<std::string> versions;
  std::vector<LibraryMember> members;
};

// The file's content; the same for the same image.
std::string WriteLibrary(const LibraryImage& image);

}  // namespace prism::launch
