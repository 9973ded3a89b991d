#include "tests/support/chunks.h"

#include "graph/base/check.h"
#include "graph/base/compress.h"
#include "graph/proto/chunk_file.h"

namespace prism::testing {
namespace {

// A second copy of the layout of graph/proto/chunk_file.h, so that a change of it fails here.
constexpr graph::FileFormat kFormat = {
    .magic = std::string_view("PRISMGR\n", 8), .version = 1, .name = "graph file"};
constexpr size_t kHeaderBytes = 16;
constexpr size_t kFrameBytes = 16;

uint32_t GetU32(std::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t byte = 0; byte < 4; ++byte) {
    value |= uint32_t{static_cast<unsigned char>(bytes[offset + byte])} << (8 * byte);
  }
  return value;
}

}  // namespace

std::vector<Chunk> SplitGraphFile(std::string_view file) {
  std::vector<Chunk> chunks;
  for (size_t offset = kHeaderBytes; GetU32(file, offset) != graph::kIndexKind;) {
    const uint32_t size = GetU32(file, offset + 4);
    Result<std::string> payload =
        Decompress(file.substr(offset + kFrameBytes, size), graph::kMaxChunkBytes);
    PRISM_CHECK(payload.ok());
    chunks.push_back({.kind = GetU32(file, offset), .payload = *std::move(payload)});
    offset += kFrameBytes + size;
  }
  return chunks;
}

std::string JoinGraphFile(const std::vector<Chunk>& chunks) {
  std::string file;
  graph::ChunkWriter writer(kFormat, [&file](std::string_view bytes) {
    file.append(bytes);
    return OkStatus();
  });
  for (const Chunk& chunk : chunks) {
    PRISM_CHECK(writer.Write(chunk.kind, chunk.payload).ok());
  }
  PRISM_CHECK(writer.Finish().ok());
  return file;
}

}  // namespace prism::testing
