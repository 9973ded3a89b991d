#include "graph/file.h"

#include <array>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/file.h"
#include "graph/proto/chunk_file.h"
#include "graph/proto/codec.h"

namespace prism::graph {
namespace {

constexpr FileFormat kFormat = {
    .magic = std::string_view("PRISMGR\n", 8), .version = 1, .name = "graph file"};

// Kinds of chunk, in the order of the file; a role chunk is followed by the ops of that role. The
// numbers are part of the format.
enum Chunk : uint32_t {
  kHead = 1,
  kStrings = 2,
  kSignatures = 3,
  kRole = 4,
  kOps = 5,
  kCommunicators = 6,
  kRanks = 7,
  kNotes = 8,
};

const char* ChunkName(uint32_t kind) {
  constexpr std::array<const char*, 9> kNames = {
      "unknown", "head", "strings", "signatures", "role", "ops", "communicators", "ranks", "notes"};
  return kind < kNames.size() ? kNames.at(kind) : kNames[0];
}

// Writes a table as chunks of one kind. `encode` gives the run that begins at its argument.
template <typename Encode>
Status WriteRuns(ChunkWriter* writer, uint32_t kind, size_t size, const Encode& encode) {
  for (size_t begin = 0; begin < size;) {
    const Run run = encode(begin);
    PRISM_CHECK_LT(begin, run.end);
    PRISM_RETURN_IF_ERROR(writer->Write(kind, run.payload));
    begin = run.end;
  }
  return OkStatus();
}

Status WriteRole(const Role& role, ChunkWriter* writer) {
  PRISM_RETURN_IF_ERROR(writer->Write(kRole, EncodeRole(role)));
  return WriteRuns(writer, kOps, role.program.size(),
                   [&](size_t begin) { return EncodeOps(role.program, begin); });
}

Status WriteChunks(const Graph& graph, ChunkWriter* writer) {
  PRISM_RETURN_IF_ERROR(writer->Write(kHead, EncodeHead(graph)));
  PRISM_RETURN_IF_ERROR(WriteRuns(writer, kStrings, graph.strings.size(), [&](size_t begin) {
    return EncodeStrings(graph.strings, begin);
  }));
  PRISM_RETURN_IF_ERROR(WriteRuns(writer, kSignatures, graph.signatures.size(), [&](size_t begin) {
    return EncodeSignatures(graph.signatures, begin);
  }));
  for (const Role& role : graph.roles) {
    PRISM_RETURN_IF_ERROR(WriteRole(role, writer));
  }
  PRISM_RETURN_IF_ERROR(
      WriteRuns(writer, kCommunicators, graph.communicators.size(),
                [&](size_t begin) { return EncodeCommunicators(graph.communicators, begin); }));
  PRISM_RETURN_IF_ERROR(WriteRuns(writer, kRanks, graph.ranks.size(),
                                  [&](size_t begin) { return EncodeRanks(graph.ranks, begin); }));
  PRISM_RETURN_IF_ERROR(writer->Write(kNotes, EncodeNotes(graph)));
  return writer->Finish();
}

// Reads chunks of one kind until the table has its announced size. `decode` appends one chunk,
// `size` returns the table's present size.
template <typename Decode, typename Size>
Status ReadRuns(ChunkReader* reader,
                uint32_t kind,
                uint32_t announced,
                const Decode& decode,
                const Size& size) {
  while (size() < announced) {
    PRISM_ASSIGN_OR_RETURN(const std::string payload, reader->Next(kind));
    const Status status = decode(payload);
    if (!status.ok()) {
      return reader->Damaged(status.message());
    }
    if (size() > announced) {
      return reader->Damaged(fmt::format("more entries than the {} announced", announced));
    }
  }
  return OkStatus();
}

Status ReadRole(ChunkReader* reader, const TableSizes& sizes, Role* role) {
  uint32_t op_count = 0;
  PRISM_ASSIGN_OR_RETURN(const std::string payload, reader->Next(kRole));
  const Status status = DecodeRole(payload, sizes, role, &op_count);
  if (!status.ok()) {
    return reader->Damaged(status.message());
  }
  PRISM_RETURN_IF_ERROR(ReadRuns(
      reader, kOps, op_count,
      [&](std::string_view ops) { return DecodeOps(ops, sizes, &role->program); },
      [&] { return role->program.size(); }));
  role->program.ShrinkToFit();
  return OkStatus();
}

Status ReadTables(ChunkReader* reader, const TableSizes& sizes, Graph* graph) {
  PRISM_RETURN_IF_ERROR(ReadRuns(
      reader, kStrings, sizes.strings,
      [&](std::string_view run) { return DecodeStrings(run, &graph->strings); },
      [&] { return graph->strings.size(); }));
  PRISM_RETURN_IF_ERROR(ReadRuns(
      reader, kSignatures, sizes.signatures,
      [&](std::string_view run) { return DecodeSignatures(run, sizes, &graph->signatures); },
      [&] { return graph->signatures.size(); }));
  for (uint32_t role = 0; role < sizes.roles; ++role) {
    PRISM_RETURN_IF_ERROR(ReadRole(reader, sizes, &graph->roles.emplace_back()));
  }
  PRISM_RETURN_IF_ERROR(ReadRuns(
      reader, kCommunicators, sizes.communicators,
      [&](std::string_view run) { return DecodeCommunicators(run, sizes, &graph->communicators); },
      [&] { return graph->communicators.size(); }));
  graph->ranks.comm_begin = {0};
  graph->ranks.peer_begin = {0};
  return ReadRuns(
      reader, kRanks, sizes.ranks,
      [&](std::string_view run) { return DecodeRanks(run, sizes, graph); },
      [&] { return graph->ranks.size(); });
}

Status ReadChunks(ChunkReader* reader, Graph* graph) {
  TableSizes sizes;
  PRISM_ASSIGN_OR_RETURN(const std::string head, reader->Next(kHead));
  Status status = DecodeHead(head, &sizes, graph);
  if (!status.ok()) {
    return reader->Damaged(status.message());
  }
  PRISM_RETURN_IF_ERROR(ReadTables(reader, sizes, graph));
  PRISM_ASSIGN_OR_RETURN(const std::string notes, reader->Next(kNotes));
  status = DecodeNotes(notes, sizes, graph);
  if (!status.ok()) {
    return reader->Damaged(status.message());
  }
  return reader->Finish();
}

}  // namespace

Status WriteGraph(const Graph& graph, const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  ChunkWriter writer(kFormat, [&file](std::string_view bytes) { return file.Append(bytes); });
  PRISM_RETURN_IF_ERROR(WriteChunks(graph, &writer));
  return file.Commit();
}

Result<Graph> ReadGraph(const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return DecodeGraph(file.bytes(), path);
}

std::string EncodeGraph(const Graph& graph) {
  std::string encoded;
  ChunkWriter writer(kFormat, [&encoded](std::string_view bytes) {
    encoded.append(bytes);
    return OkStatus();
  });
  const Status status = WriteChunks(graph, &writer);
  PRISM_CHECK_MSG(status.ok(), status.message());
  return encoded;
}

Result<Graph> DecodeGraph(std::string_view bytes, const std::string& name_for_messages) {
  PRISM_ASSIGN_OR_RETURN(ChunkReader reader,
                         ChunkReader::Open(bytes, kFormat, name_for_messages, ChunkName));
  Graph graph;
  PRISM_RETURN_IF_ERROR(ReadChunks(&reader, &graph));
  return graph;
}

}  // namespace prism::graph
