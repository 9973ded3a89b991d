// Tables as chunks of one kind each, of graph files and fragments alike.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/proto/chunk_file.h"
#include "graph/proto/codec.h"

namespace prism::graph {

// `encode(table, begin)` gives the run that begins at that entry.
template <typename Table, typename Encode>
Status WriteTable(ChunkWriter* writer, uint32_t kind, const Table& table, const Encode& encode) {
  for (size_t begin = 0; begin < table.size();) {
    const Run run = encode(table, begin);
    PRISM_CHECK_LT(begin, run.end);
    PRISM_RETURN_IF_ERROR(writer->Write(kind, run.payload));
    begin = run.end;
  }
  return OkStatus();
}

// Reads chunks until the table has its announced size; `decode(payload)` appends one to it.
template <typename Table, typename Decode>
Status ReadTable(ChunkReader* reader,
                 uint32_t kind,
                 uint32_t announced,
                 const Table& table,
                 const Decode& decode) {
  while (table.size() < announced) {
    PRISM_ASSIGN_OR_RETURN(const std::string payload, reader->Next(kind));
    PRISM_RETURN_IF_ERROR(reader->Check(decode(payload)));
    if (table.size() > announced) {
      return reader->Damaged(fmt::format("more entries than the {} announced", announced));
    }
  }
  return OkStatus();
}

// The bytes of a file that `write` fills, which cannot fail.
template <typename Write>
std::string EncodeChunks(const FileFormat& format, const Write& write) {
  std::string encoded;
  ChunkWriter writer(format, [&encoded](std::string_view bytes) {
    encoded.append(bytes);
    return OkStatus();
  });
  const Status status = write(&writer);
  PRISM_CHECK_MSG(status.ok(), status.message());
  return encoded;
}

}  // namespace prism::graph
