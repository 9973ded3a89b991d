// The framing of graph files and fragments: a header, compressed chunks one after the other, an
// index of them, an end mark. Knows nothing of the contents.
//
//   header   magic (8 bytes), version (u32), zero (u32)
//   chunk    kind (u32), stored size (u32), XXH3 of kind, size and payload (u64), zstd payload
//   ...
//   chunk    of kind kIndexKind: offset, kind and hash of every chunk before it
//   end      offset of the index chunk (u64), magic (8 bytes)
//
// All integers little-endian. Written front to back, holding at most one chunk in memory; read
// front to back, or from the index. Every byte is hashed or compared, so that no changed, missing
// or extra byte goes unnoticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::graph {

inline constexpr uint32_t kIndexKind = 0xFFFFFFFFU;

// No chunk is larger than this, before and after compression: what a damaged or hostile file can
// make a reader allocate at once.
inline constexpr size_t kMaxChunkBytes = size_t{64} << 20U;

// Name and magic bytes of a kind of file.
struct FileFormat {
  std::string_view magic;  // 8 bytes
  uint32_t version;
  std::string_view name;  // for messages: "graph file"
};

// Of the index.
struct ChunkEntry {
  uint64_t offset;
  uint32_t kind;
  uint64_t hash;
};

class ChunkWriter {
 public:
  // Receives the file's bytes in order.
  using Sink = std::function<Status(std::string_view)>;

  ChunkWriter(const FileFormat& format, Sink sink);

  // Fails as the sink does, and (kRunFailed) when the payload exceeds kMaxChunkBytes.
  Status Write(uint32_t kind, std::string_view payload);

  // The index and the end mark. Nothing may be written after.
  Status Finish();

 private:
  Status Emit(std::string_view bytes);
  Status EmitHeader();

  FileFormat format_;
  Sink sink_;
  uint64_t offset_ = 0;
  std::vector<ChunkEntry> entries_;
};

// Reads chunks front to back. Every failure is kBadFile and names file, offset and kind.
class ChunkReader {
 public:
  // Names a kind of chunk for messages.
  using KindName = const char* (*)(uint32_t kind);

  // `bytes` must outlive the reader. Checks header and end mark.
  static Result<ChunkReader> Open(std::string_view bytes,
                                  const FileFormat& format,
                                  std::string file_name,
                                  KindName kind_name);

  // The decompressed payload of the next chunk, which must be of this kind.
  Result<std::string> Next(uint32_t kind);

  // After the last chunk: the index must follow and agree with what was read.
  Status Finish();

  // kBadFile at the chunk that Next() returned last.
  [[nodiscard]] Status Damaged(std::string_view what) const;
  [[nodiscard]] Status Check(const Status& status) const {
    return status.ok() ? status : Damaged(status.message());
  }

 private:
  ChunkReader(std::string_view bytes, std::string file_name, KindName kind_name)
      : bytes_(bytes), file_name_(std::move(file_name)), kind_name_(kind_name) {}

  Status CheckEnds(const FileFormat& format);
  [[nodiscard]] Status DamagedAt(uint64_t offset, uint32_t kind, std::string_view what) const;

  std::string_view bytes_;
  std::string file_name_;
  KindName kind_name_;
  uint64_t next_ = 0;      // offset of the next chunk
  uint64_t index_at_ = 0;  // offset of the index chunk
  std::vector<ChunkEntry> read_;
};

}  // namespace prism::graph
