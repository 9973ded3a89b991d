#include "graph/fragment.h"

#include <limits>

#include <fmt/format.h>

#include "graph/base/hash.h"
#include "graph/bounded_fragment.h"
#include "graph/proto/chunk_file.h"
#include "graph/proto/chunk_tables.h"
#include "graph/proto/codec.h"

namespace prism::graph {
namespace {

constexpr FileFormat kFragmentFormat = {
    .magic = std::string_view("PRISMFR\n", 8), .version = 1, .name = "fragment"};

enum FragmentChunk : uint32_t {
  kFragmentHead = 1,
  kFragmentStrings = 2,
  kFragmentSignatures = 3,
  kFragmentOps = 4
};

const char* FragmentChunkName(uint32_t kind) {
  constexpr std::array<const char*, 5> kNames = {"unknown", "head", "strings", "signatures", "ops"};
  return kind < kNames.size() ? kNames.at(kind) : kNames[0];
}

uint64_t HashOf(const KernelSignature& signature, const std::vector<std::string>& strings) {
  Hasher hasher;
  hasher.AddString(strings[signature.name.value()]);
  hasher.AddString(strings[signature.framework_op.value()]);
  for (size_t axis = 0; axis < 3; ++axis) {
    hasher.Add(signature.grid[axis]);
    hasher.Add(signature.block[axis]);
  }
  const MatmulShape& matmul = signature.matmul;
  for (const int64_t extent : {matmul.m, matmul.n, matmul.k, matmul.batch}) {
    hasher.Add(extent);
  }
  hasher.Add(static_cast<uint8_t>(matmul.input));
  hasher.Add(static_cast<uint8_t>(matmul.output));
  hasher.Add(matmul.transpose_a);
  hasher.Add(matmul.transpose_b);
  hasher.Add(signature.inputs.size());
  for (const TensorShape& input : signature.inputs) {
    hasher.Add(static_cast<uint8_t>(input.dtype));
    hasher.Add(input.dims.size());
    for (const int64_t dim : input.dims) {
      hasher.Add(dim);
    }
  }
  return hasher.Digest();
}

uint64_t HashOf(const CollectiveShape& shape) {
  Hasher hasher;
  hasher.Add(static_cast<uint8_t>(shape.kind));
  hasher.Add(static_cast<uint8_t>(shape.dtype));
  hasher.Add(static_cast<uint8_t>(shape.reduce));
  hasher.Add(shape.root);
  hasher.Add(shape.bytes);
  return hasher.Digest();
}

uint64_t HashOf(const PeerGroup& group) {
  Hasher hasher;
  for (const PeerTransfer& transfer : group.transfers) {
    hasher.Add(transfer.is_send);
    hasher.Add(transfer.comm_slot);
    hasher.Add(transfer.peer_slot);
    hasher.Add(transfer.bytes);
  }
  return hasher.Digest();
}

// Hashes of what op signatures refer to, by table: a process numbers ids in the order it meets
// them, so two ranks of one role may number the same things differently.
struct ContentHashes {
  std::vector<uint64_t> signatures;
  std::vector<uint64_t> collectives;
  std::vector<uint64_t> peer_groups;

  explicit ContentHashes(const Fragment& fragment) {
    for (const KernelSignature& signature : fragment.signatures) {
      signatures.push_back(HashOf(signature, fragment.strings));
    }
    for (const CollectiveShape& shape : fragment.program.collectives) {
      collectives.push_back(HashOf(shape));
    }
    for (const PeerGroup& group : fragment.program.peer_groups) {
      peer_groups.push_back(HashOf(group));
    }
  }

  [[nodiscard]] uint64_t Of(OpKind kind, uint32_t signature) const {
    switch (kind) {
      case OpKind::kKernel:
        return signatures.at(signature);
      case OpKind::kCollective:
        return collectives.at(signature);
      case OpKind::kPeerGroup:
        return peer_groups.at(signature);
      default:
        return signature;
    }
  }
};

Status WriteChunks(const Fragment& fragment, ChunkWriter* writer) {
  PRISM_RETURN_IF_ERROR(writer->Write(kFragmentHead, EncodeFragmentHead(fragment)));
  PRISM_RETURN_IF_ERROR(WriteTable(writer, kFragmentStrings, fragment.strings, EncodeStrings));
  PRISM_RETURN_IF_ERROR(
      WriteTable(writer, kFragmentSignatures, fragment.signatures, EncodeSignatures));
  PRISM_RETURN_IF_ERROR(WriteTable(writer, kFragmentOps, fragment.program, EncodeOps));
  return writer->Finish();
}

Status Take(size_t bytes, size_t* most_bytes) {
  if (bytes > *most_bytes) {
    return BadFile(fmt::format("takes {} bytes of memory where {} are left", bytes, *most_bytes));
  }
  *most_bytes -= bytes;
  return OkStatus();
}

Status ReadChunks(ChunkReader* reader, Fragment* fragment, size_t* most_bytes) {
  constexpr size_t kOfHead = 16;  // what its columns take, at most, for each byte (convert.h)
  constexpr size_t kOfOp = sizeof(OpRow);
  TableSizes sizes;
  uint32_t op_count = 0;
  PRISM_ASSIGN_OR_RETURN(const std::string head, reader->Next(kFragmentHead));
  PRISM_RETURN_IF_ERROR(reader->Check(Take(head.size() * kOfHead, most_bytes)));
  PRISM_RETURN_IF_ERROR(reader->Check(DecodeFragmentHead(head, &sizes, fragment, &op_count)));
  PRISM_RETURN_IF_ERROR(
      reader->Check(Take(sizes.strings * sizeof(std::string) +
                             sizes.signatures * sizeof(KernelSignature) + op_count * kOfOp,
                         most_bytes)));
  const auto read = [&](FragmentChunk kind, uint32_t announced, auto* table, const auto& decode) {
    return ReadTable(reader, kind, announced, *table, [&](std::string_view run) {
      const Status taken = Take(run.size(), most_bytes);
      return taken.ok() ? decode(run, table) : taken;
    });
  };
  PRISM_RETURN_IF_ERROR(read(kFragmentStrings, sizes.strings, &fragment->strings, DecodeStrings));
  PRISM_RETURN_IF_ERROR(
      read(kFragmentSignatures, sizes.signatures, &fragment->signatures,
           [&](std::string_view run, auto* table) { return DecodeSignatures(run, sizes, table); }));
  PRISM_RETURN_IF_ERROR(
      read(kFragmentOps, op_count, &fragment->program,
           [&](std::string_view run, auto* table) { return DecodeOps(run, sizes, table); }));
  return reader->Finish();
}

}  // namespace

uint64_t StructuralHash(const Fragment& fragment) {
  const Program& program = fragment.program;
  const ContentHashes contents(fragment);
  Hasher hasher;
  hasher.Add(program.stream_count);
  hasher.Add(fragment.comm_slots.size());
  for (const FragmentCommunicator& communicator : fragment.comm_slots) {
    hasher.AddString(communicator.name);
    hasher.Add(communicator.members.size());
  }
  hasher.Add(fragment.peer_slots.size());
  std::vector<uint32_t> place;  // by op: among those that count
  uint32_t counted = 0;
  for (uint32_t op = 0; op < program.size(); ++op) {
    place.push_back(counted);
    if (program.kind[op] == OpKind::kMarker) {
      continue;
    }
    ++counted;
    hasher.Add(static_cast<uint8_t>(program.kind[op]));
    hasher.Add(program.flags[op]);
    hasher.Add(program.stream[op]);
    hasher.Add(program.comm_slot[op]);
    hasher.Add(contents.Of(program.kind[op], program.signature[op]));
    hasher.Add(program.dep[op] == kNoDep ? kNoDep : place[program.dep[op]]);
    hasher.Add(program.value[op]);
  }
  return hasher.Digest();
}

std::string SerializeFragment(const Fragment& fragment) {
  return EncodeChunks(kFragmentFormat,
                      [&](ChunkWriter* writer) { return WriteChunks(fragment, writer); });
}

Result<Fragment> ParseFragment(std::string_view bytes) {
  size_t most_bytes = std::numeric_limits<size_t>::max();
  return ParseFragment(bytes, &most_bytes);
}

Result<Fragment> ParseFragment(std::string_view bytes, size_t* most_bytes) {
  PRISM_ASSIGN_OR_RETURN(ChunkReader reader,
                         ChunkReader::Open(bytes, kFragmentFormat, "fragment", FragmentChunkName));
  Fragment fragment;
  PRISM_RETURN_IF_ERROR(ReadChunks(&reader, &fragment, most_bytes));
  return fragment;
}

}  // namespace prism::graph
