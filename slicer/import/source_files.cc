#include "slicer/import/source_files.h"

#include <algorithm>
#include <utility>

#include "graph/base/compress.h"

namespace prism::slicer {

Result<SourceFiles> SourceFiles::Open(const std::vector<std::string>& files,
                                      size_t max_unpacked_bytes,
                                      bool cut_off) {
  SourceFiles opened;
  for (const std::string& file : files) {
    PRISM_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(file));
    if (!IsPacked(mapped.bytes())) {
      opened.sources_.push_back({file, mapped.bytes()});
      opened.mapped_.push_back(std::move(mapped));
      continue;
    }
    bool ends_early = false;
    Result<std::string> held =
        Unpack(mapped.bytes(), max_unpacked_bytes, cut_off ? &ends_early : nullptr);
    if (!held.ok()) {
      return held.status().WithContext(file);
    }
    opened.unpacked_.push_back(*std::move(held));
    opened.sources_.push_back({file, opened.unpacked_.back()});
  }
  return opened;
}

std::string BeginningOf(const std::string& file, size_t most) {
  constexpr size_t kPacked = 4096;
  std::string beginning = ReadBeginning(file, std::max(most, kPacked));
  if (IsPacked(beginning)) {
    bool ignored = false;
    Result<std::string> unpacked = Unpack(beginning, kFreeUnpackedBytes, &ignored);
    beginning = unpacked.ok() ? *std::move(unpacked) : "";
  }
  return beginning.substr(0, most);
}

Result<std::string> ReadSource(const std::string& file) {
  constexpr size_t kMostBytes = size_t{1} << 32U;
  PRISM_ASSIGN_OR_RETURN(std::string bytes, ReadFile(file));
  if (!IsPacked(bytes)) {
    return bytes;
  }
  Result<std::string> held = Unpack(bytes, kMostBytes);
  return held.ok() ? std::move(held) : Result<std::string>(held.status().WithContext(file));
}

}  // namespace prism::slicer
