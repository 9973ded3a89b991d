#include "graph/base/input_hashes.h"

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/hash.h"

namespace prism {

std::string HashText(std::string_view bytes) {
  return fmt::format("{:016x}", Hash64(bytes));
}

void NoteInput(const std::string& path, std::string_view bytes, InputHashes* read) {
  if (read != nullptr) {
    (*read)[path] = HashText(bytes);
  }
}

Result<std::string> HashOfFile(const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return HashText(file.bytes());
}

}  // namespace prism
