#include "graph/file.h"

#include <array>

#include "graph/base/file.h"
#include "graph/proto/chunk_file.h"
#include "graph/proto/chunk_tables.h"
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

Status WriteChunks(const Graph& graph, ChunkWriter* writer) {
  PRISM_RETURN_IF_ERROR(writer->Write(kHead, EncodeHead(graph)));
  PRISM_RETURN_IF_ERROR(WriteTable(writer, kStrings, graph.strings, EncodeStrings));
  PRISM_RETURN_IF_ERROR(WriteTable(writer, kSignatures, graph.signatures, EncodeSignatures));
  for (const Role& role : graph.roles) {
    PRISM_RETURN_IF_ERROR(writer->Write(kRole, EncodeRole(role)));
    PRISM_RETURN_IF_ERROR(WriteTable(writer, kOps, role.program, EncodeOps));
  }
  PRISM_RETURN_IF_ERROR(
      WriteTable(writer, kCommunicators, graph.communicators, EncodeCommunicators));
  PRISM_RETURN_IF_ERROR(WriteTable(writer, kRanks, graph.ranks, EncodeRanks));
  PRISM_RETURN_IF_ERROR(writer->Write(kNotes, EncodeNotes(graph)));
  return writer->Finish();
}

Status ReadRole(ChunkReader* reader, const TableSizes& sizes, Role* role) {
  uint32_t op_count = 0;
  PRISM_ASSIGN_OR_RETURN(const std::string payload, reader->Next(kRole));
  PRISM_RETURN_IF_ERROR(reader->Check(DecodeRole(payload, sizes, role, &op_count)));
  PRISM_RETURN_IF_ERROR(ReadTable(reader, kOps, op_count, role->program, [&](std::string_view ops) {
    return DecodeOps(ops, sizes, &role->program);
  }));
  role->program.ShrinkToFit();
  return OkStatus();
}

Status ReadTables(ChunkReader* reader, const TableSizes& sizes, Graph* graph) {
  PRISM_RETURN_IF_ERROR(
      ReadTable(reader, kStrings, sizes.strings, graph->strings,
                [&](std::string_view run) { return DecodeStrings(run, &graph->strings); }));
  PRISM_RETURN_IF_ERROR(ReadTable(
      reader, kSignatures, sizes.signatures, graph->signatures,
      [&](std::string_view run) { return DecodeSignatures(run, sizes, &graph->signatures); }));
  for (uint32_t role = 0; role < sizes.roles; ++role) {
    PRISM_RETURN_IF_ERROR(ReadRole(reader, sizes, &graph->roles.emplace_back()));
  }
  PRISM_RETURN_IF_ERROR(ReadTable(reader, kCommunicators, sizes.communicators, graph->communicators,
                                  [&](std::string_view run) {
                                    return DecodeCommunicators(run, sizes, &graph->communicators);
                                  }));
  graph->ranks.comm_begin = {0};
  graph->ranks.peer_begin = {0};
  return ReadTable(reader, kRanks, sizes.ranks, graph->ranks,
                   [&](std::string_view run) { return DecodeRanks(run, sizes, graph); });
}

Status ReadChunks(ChunkReader* reader, Graph* graph) {
  TableSizes sizes;
  PRISM_ASSIGN_OR_RETURN(const std::string head, reader->Next(kHead));
  PRISM_RETURN_IF_ERROR(reader->Check(DecodeHead(head, &sizes, graph)));
  PRISM_RETURN_IF_ERROR(ReadTables(reader, sizes, graph));
  PRISM_ASSIGN_OR_RETURN(const std::string notes, reader->Next(kNotes));
  PRISM_RETURN_IF_ERROR(reader->Check(DecodeNotes(notes, sizes, graph)));
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
  return EncodeChunks(kFormat, [&](ChunkWriter* writer) { return WriteChunks(graph, writer); });
}

Result<Graph> DecodeGraph(std::string_view bytes, const std::string& name_for_messages) {
  PRISM_ASSIGN_OR_RETURN(ChunkReader reader,
                         ChunkReader::Open(bytes, kFormat, name_for_messages, ChunkName));
  Graph graph;
  PRISM_RETURN_IF_ERROR(ReadChunks(&reader, &graph));
  return graph;
}

}  // namespace prism::graph
