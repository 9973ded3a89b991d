// The files of an import, packed (gzip, zstd) or not, in memory.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/compress.h"
#include "graph/base/file.h"
#include "graph/base/status.h"

namespace prism::slicer {

// One file's content; the caller owns the bytes.
struct TraceSource {
  std::string name;  // for messages
  std::string_view bytes;
};

inline constexpr size_t kMostUnpackedBytes = size_t{1} << 34U;  // of a profile, say

class SourceFiles {
 public:
  // Opens the files in the given order. kBadFile for a file that cannot be read, is damaged, or
  // holds more than `max_unpacked_bytes`.
  static Result<SourceFiles> Open(const std::vector<std::string>& files,
                                  size_t max_unpacked_bytes = kMostUnpackedBytes);

  // Valid as long as this object.
  [[nodiscard]] const std::vector<TraceSource>& sources() const { return sources_; }

 private:
  std::deque<MappedFile> mapped_;
  std::deque<std::string> unpacked_;
  std::vector<TraceSource> sources_;
};

// One file, in the memory of a piece of it. Packed data may end too early: what came before is all
// there is.
class SourcePieces {
 public:
  static Result<SourcePieces> Open(const std::string& file);

  // Valid until the next call; empty at the end, and where packed data is wrong.
  std::string_view Next();
  [[nodiscard]] Status status() const;

 private:
  SourcePieces(MappedFile mapped, std::string file);

  MappedFile mapped_;
  std::string file_;
  std::optional<UnpackedPieces> unpacked_;
  size_t at_ = 0;
};

// The first bytes of a file, unpacked: what it is. "" if it cannot be read.
std::string BeginningOf(const std::string& file, size_t most);

// The content of a file that is small where nobody means harm, unpacked.
Result<std::string> ReadSource(const std::string& file);

}  // namespace prism::slicer
