// A reader trusts nothing before it is checked: the end mark gives the index's place, which bounds
// every chunk, a chunk's own size is compared with what is left before its payload is touched, and
// a payload is decompressed only after its hash fits. The index is not parsed at all: the reader
// makes the one that the chunks it read must have, and compares bytes. So header, chunks, index and
// end mark leave no byte that could change unnoticed.
#include "graph/proto/chunk_file.h"

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/compress.h"
#include "graph/base/hash.h"

namespace prism::graph {
namespace {

constexpr size_t kMagicBytes = 8;
constexpr size_t kHeaderBytes = kMagicBytes + 4 + 4;
constexpr size_t kFrameBytes = 4 + 4 + 8;
constexpr size_t kEndBytes = 8 + kMagicBytes;
constexpr size_t kEntryBytes = 8 + 4 + 8;

void PutInteger(std::string* out, uint64_t value, size_t bytes) {
  for (size_t byte = 0; byte < bytes; ++byte) {
    out->push_back(static_cast<char>((value >> (8 * byte)) & 0xFFU));
  }
}

uint64_t GetInteger(std::string_view bytes, uint64_t offset, size_t width) {
  PRISM_CHECK_LE(offset + width, bytes.size());
  uint64_t value = 0;
  for (size_t byte = 0; byte < width; ++byte) {
    value |= uint64_t{static_cast<unsigned char>(bytes[offset + byte])} << (8 * byte);
  }
  return value;
}

uint64_t FrameHash(uint32_t kind, std::string_view stored) {
  Hasher hasher;
  hasher.Add(kind);
  hasher.AddString(stored);
  return hasher.Digest();
}

std::string Header(const FileFormat& format) {
  PRISM_CHECK_EQ(format.magic.size(), kMagicBytes);
  std::string header(format.magic);
  PutInteger(&header, format.version, 4);
  PutInteger(&header, 0, 4);
  return header;
}

std::string Frame(uint32_t kind, std::string_view stored, uint64_t hash) {
  std::string frame;
  frame.reserve(kFrameBytes + stored.size());
  PutInteger(&frame, kind, 4);
  PutInteger(&frame, stored.size(), 4);
  PutInteger(&frame, hash, 8);
  frame.append(stored);
  return frame;
}

// The index chunk of these.
std::string Index(const std::vector<ChunkEntry>& entries) {
  std::string index;
  index.reserve(entries.size() * kEntryBytes);
  for (const ChunkEntry& entry : entries) {
    PutInteger(&index, entry.offset, 8);
    PutInteger(&index, entry.kind, 4);
    PutInteger(&index, entry.hash, 8);
  }
  return Frame(kIndexKind, index, FrameHash(kIndexKind, index));
}

}  // namespace

ChunkWriter::ChunkWriter(const FileFormat& format, Sink sink)
    : format_(format), sink_(std::move(sink)) {
}

Status ChunkWriter::Emit(std::string_view bytes) {
  offset_ += bytes.size();
  return sink_(bytes);
}

Status ChunkWriter::EmitHeader() {
  return offset_ == 0 ? Emit(Header(format_)) : OkStatus();
}

Status ChunkWriter::Write(uint32_t kind, std::string_view payload) {
  if (payload.size() > kMaxChunkBytes) {
    return RunFailed(fmt::format("a chunk of {} bytes does not fit into a {} (limit {})",
                                 payload.size(), format_.name, kMaxChunkBytes));
  }
  PRISM_RETURN_IF_ERROR(EmitHeader());
  const std::string stored = Compress(payload);
  const uint64_t hash = FrameHash(kind, stored);
  entries_.push_back({.offset = offset_, .kind = kind, .hash = hash});
  return Emit(Frame(kind, stored, hash));
}

Status ChunkWriter::Finish() {
  PRISM_RETURN_IF_ERROR(EmitHeader());
  const uint64_t index_at = offset_;
  PRISM_RETURN_IF_ERROR(Emit(Index(entries_)));
  std::string end;
  PutInteger(&end, index_at, 8);
  end.append(format_.magic);
  return Emit(end);
}

Result<ChunkReader> ChunkReader::Open(std::string_view bytes,
                                      const FileFormat& format,
                                      std::string file_name,
                                      KindName kind_name) {
  ChunkReader reader(bytes, std::move(file_name), kind_name);
  PRISM_RETURN_IF_ERROR(reader.CheckEnds(format));
  return reader;
}

Status ChunkReader::CheckEnds(const FileFormat& format) {
  if (bytes_.substr(0, kMagicBytes) != format.magic) {
    return BadFile(fmt::format("{}: not a {}", file_name_, format.name));
  }
  if (bytes_.size() < kHeaderBytes + kFrameBytes + kEndBytes) {
    return BadFile(fmt::format("{}: truncated at {} bytes", file_name_, bytes_.size()));
  }
  const uint64_t version = GetInteger(bytes_, kMagicBytes, 4);
  if (version != format.version) {
    return BadFile(fmt::format("{}: {} of version {}, this program reads version {}", file_name_,
                               format.name, version, format.version));
  }
  if (bytes_.substr(0, kHeaderBytes) != Header(format)) {
    return BadFile(fmt::format("{}: damaged header", file_name_));
  }
  const uint64_t end_at = bytes_.size() - kEndBytes;
  if (bytes_.substr(end_at + 8) != format.magic) {
    return BadFile(
        fmt::format("{}: truncated, or followed by other data: no end mark at offset {}; copy the "
                    "file again or repeat the run",
                    file_name_, end_at));
  }
  index_at_ = GetInteger(bytes_, end_at, 8);
  if (index_at_ < kHeaderBytes || index_at_ > end_at - kFrameBytes) {
    return BadFile(fmt::format("{}: damaged end mark at offset {}", file_name_, end_at));
  }
  next_ = kHeaderBytes;
  return OkStatus();
}

Result<std::string> ChunkReader::Next(uint32_t kind) {
  if (next_ >= index_at_) {
    return DamagedAt(next_, kind, "missing");
  }
  const uint64_t available = index_at_ - next_;
  const uint64_t size = available < kFrameBytes ? 0 : GetInteger(bytes_, next_ + 4, 4);
  if (available < kFrameBytes || size > available - kFrameBytes) {
    return DamagedAt(next_, kind, "longer than the file");
  }
  const auto found_kind = static_cast<uint32_t>(GetInteger(bytes_, next_, 4));
  const uint64_t hash = GetInteger(bytes_, next_ + 8, 8);
  const std::string_view stored = bytes_.substr(next_ + kFrameBytes, size);
  if (FrameHash(found_kind, stored) != hash) {
    return DamagedAt(next_, kind, "hash does not match");
  }
  if (found_kind != kind) {
    return DamagedAt(next_, kind, fmt::format("found kind {} instead", found_kind));
  }
  read_.push_back({.offset = next_, .kind = kind, .hash = hash});
  Result<std::string> payload = Decompress(stored, kMaxChunkBytes);
  if (!payload.ok()) {
    return DamagedAt(next_, kind, payload.status().message());
  }
  next_ += kFrameBytes + size;
  return payload;
}

Status ChunkReader::Finish() {
  if (next_ != index_at_) {
    return DamagedAt(next_, kIndexKind, "other chunks follow where the index should be");
  }
  const uint64_t end_at = bytes_.size() - kEndBytes;
  if (bytes_.substr(index_at_, end_at - index_at_) != Index(read_)) {
    return DamagedAt(index_at_, kIndexKind, "does not match the chunks");
  }
  return OkStatus();
}

Status ChunkReader::Damaged(std::string_view what) const {
  PRISM_CHECK(!read_.empty());
  return DamagedAt(read_.back().offset, read_.back().kind, what);
}

Status ChunkReader::DamagedAt(uint64_t offset, uint32_t kind, std::string_view what) const {
  return BadFile(fmt::format("{}: damaged {} chunk at offset {}: {}", file_name_,
                             kind == kIndexKind ? "index" : kind_name_(kind), offset, what));
}

}  // namespace prism::graph
