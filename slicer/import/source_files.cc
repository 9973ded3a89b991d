#include "slicer/import/source_files.h"

#include <utility>

#include "graph/base/compress.h"

namespace prism::slicer {

Result<SourceFiles> SourceFiles::Open(const std::vector<std::string>& files,
                                      size_t max_unpacked_bytes) {
  SourceFiles opened;
  for (const std::string& file : files) {
    PRISM_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(file));
    if (!IsGzip(mapped.bytes())) {
      opened.sources_.push_back({file, mapped.bytes()});
      opened.mapped_.push_back(std::move(mapped));
      continue;
    }
    Result<std::string> held = Gunzip(mapped.bytes(), max_unpacked_bytes);
    if (!held.ok()) {
      return held.status().WithContext(file);
    }
    opened.unpacked_.push_back(*std::move(held));
    opened.sources_.push_back({file, opened.unpacked_.back()});
  }
  return opened;
}

}  // namespace prism::slicer
