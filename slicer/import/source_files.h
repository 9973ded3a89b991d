// The files of an import, gzipped or not, in memory.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/file.h"
#include "graph/base/status.h"

namespace prism::slicer {

// One file's content; the caller owns the bytes.
struct TraceSource {
  std::string name;  // for messages
  std::string_view bytes;
};

class SourceFiles {
 public:
  // Opens the files in the given order. kBadFile for a file that cannot be read, is damaged, or
  // holds more than `max_unpacked_bytes`.
  static Result<SourceFiles> Open(const std::vector<std::string>& files, size_t max_unpacked_bytes);

  // Valid as long as this object.
  [[nodiscard]] const std::vector<TraceSource>& sources() const { return sources_; }

 private:
  std::deque<MappedFile> mapped_;
  std::deque<std::string> unpacked_;
  std::vector<TraceSource> sources_;
};

}  // namespace prism::slicer
