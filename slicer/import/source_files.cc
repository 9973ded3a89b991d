#include "slicer/import/source_files.h"

#include <algorithm>
#include <utility>

namespace prism::slicer {

Result<SourceFiles> SourceFiles::Open(const std::vector<std::string>& files,
                                      size_t max_unpacked_bytes) {
  SourceFiles opened;
  for (const std::string& file : files) {
    PRISM_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(file));
    if (!IsPacked(mapped.bytes())) {
      opened.sources_.push_back({file, mapped.bytes()});
      opened.mapped_.push_back(std::move(mapped));
      continue;
    }
    Result<std::string> held = Unpack(mapped.bytes(), max_unpacked_bytes);
    if (!held.ok()) {
      return held.status().WithContext(file);
    }
    opened.unpacked_.push_back(*std::move(held));
    opened.sources_.push_back({file, opened.unpacked_.back()});
  }
  return opened;
}

SourcePieces::SourcePieces(MappedFile mapped, std::string file)
    : mapped_(std::move(mapped)), file_(std::move(file)) {
  if (IsPacked(mapped_.bytes())) {
    unpacked_.emplace(mapped_.bytes(), kMostUnpackedBytes);
  }
}

Result<SourcePieces> SourcePieces::Open(const std::string& file) {
  PRISM_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(file));
  return SourcePieces(std::move(mapped), file);
}

std::string_view SourcePieces::Next() {
  constexpr size_t kPiece = size_t{4} << 20U;
  if (unpacked_) {
    return unpacked_->Next();
  }
  mapped_.Release(at_);
  const std::string_view piece = mapped_.bytes().substr(at_, kPiece);
  at_ += piece.size();
  return piece;
}

Status SourcePieces::status() const {
  return unpacked_ ? unpacked_->status().WithContext(file_) : OkStatus();
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
