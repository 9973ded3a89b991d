#include "graph/describe.h"

#include <array>
#include <cctype>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace prism::graph {
namespace {

// How slots are named: by number for a program alone, by name and rank for a rank.
struct SlotNames {
  std::function<std::string(uint16_t)> communicator;
  std::function<std::string(uint16_t)> peer;
};

std::string Name(const std::vector<std::string>& strings, uint32_t id) {
  return id < strings.size() ? strings[id] : fmt::format("string #{}", id);
}

const char* ReduceName(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::kNone:
      return "";
    case ReduceOp::kSum:
      return " (sum)";
    case ReduceOp::kProd:
      return " (prod)";
    case ReduceOp::kMax:
      return " (max)";
    case ReduceOp::kMin:
      return " (min)";
    case ReduceOp::kAvg:
      return " (avg)";
  }
  return "";
}

std::string DescribeCollective(const Program& program, uint32_t op, const SlotNames& slots) {
  const uint32_t index = program.signature[op];
  if (index >= program.collectives.size()) {
    return fmt::format("collective #{}", index);
  }
  const CollectiveShape& shape = program.collectives[index];
  const std::string root = shape.root < 0 ? "" : fmt::format(" from root {}", shape.root);
  return fmt::format("{}{} of {} bytes {}{} on {}", CollectiveKindName(shape.kind),
                     ReduceName(shape.reduce), shape.bytes, DataTypeName(shape.dtype), root,
                     slots.communicator(program.comm_slot[op]));
}

std::string DescribePeerGroup(const Program& program, uint32_t op, const SlotNames& slots) {
  const uint32_t index = program.signature[op];
  if (index >= program.peer_groups.size()) {
    return fmt::format("peer group #{}", index);
  }
  std::string text;
  for (const PeerTransfer& transfer : program.peer_groups[index].transfers) {
    text += fmt::format("{}{} {} bytes {} {} on {}", text.empty() ? "" : " + ",
                        transfer.is_send ? "send" : "receive", transfer.bytes,
                        transfer.is_send ? "to" : "from", slots.peer(transfer.peer_slot),
                        slots.communicator(transfer.comm_slot));
  }
  return text.empty() ? "empty peer group" : text;
}

std::string DescribeKernel(const Program& program,
                           uint32_t op,
                           const std::vector<std::string>& strings,
                           const std::vector<KernelSignature>& signatures) {
  const uint32_t index = program.signature[op];
  if (index >= signatures.size()) {
    return fmt::format("kernel #{}", index);
  }
  const KernelSignature& signature = signatures[index];
  std::string text = fmt::format("kernel {}", Name(strings, signature.name.value()));
  const MatmulShape& matmul = signature.matmul;
  if (matmul.m > 0) {
    text += fmt::format(" {}x{}x{} batch {}", matmul.m, matmul.n, matmul.k, matmul.batch);
  }
  if ((program.flags[op] & kDurationFixed) != 0) {
    text += fmt::format(" of {} ns", program.value[op]);
  }
  const std::string framework_op = Name(strings, signature.framework_op.value());
  return framework_op.empty() ? text : fmt::format("{} ({})", text, framework_op);
}

std::string Describe(const Program& program,
                     uint32_t op,
                     const std::vector<std::string>& strings,
                     const std::vector<KernelSignature>& signatures,
                     const SlotNames& slots) {
  switch (program.kind[op]) {
    case OpKind::kKernel:
      return DescribeKernel(program, op, strings, signatures);
    case OpKind::kMemcpy:
      return fmt::format("copy of {} bytes", program.value[op]);
    case OpKind::kMemset:
      return fmt::format("memset of {} bytes", program.value[op]);
    case OpKind::kHostGap:
      return fmt::format("host gap of {} ns", program.value[op]);
    case OpKind::kEventRecord:
      return fmt::format("event record on stream {}", program.stream[op]);
    case OpKind::kEventWait:
      return fmt::format("stream {} waits for the event of op {}", program.stream[op],
                         static_cast<int64_t>(static_cast<int32_t>(program.dep[op])));
    case OpKind::kEventSync:
      return fmt::format("host waits for the event of op {}",
                         static_cast<int64_t>(static_cast<int32_t>(program.dep[op])));
    case OpKind::kStreamSync:
      return fmt::format("host waits for stream {}", program.stream[op]);
    case OpKind::kDeviceSync:
      return "host waits for the device";
    case OpKind::kCollective:
      return DescribeCollective(program, op, slots);
    case OpKind::kPeerGroup:
      return DescribePeerGroup(program, op, slots);
    case OpKind::kSegmentAlloc:
      return fmt::format("segment of {} bytes allocated", program.value[op]);
    case OpKind::kSegmentFree:
      return fmt::format("segment of {} bytes freed", program.value[op]);
    case OpKind::kMarker:
      return fmt::format("marker {} {}", Name(strings, program.signature[op]),
                         (program.flags[op] & kMarkerBegin) != 0 ? "begins" : "ends");
  }
  return fmt::format("op of unknown kind {}", static_cast<int>(program.kind[op]));
}

constexpr std::array<const char*, kOpKindCount> kOpKindNames = {
    "kernel",     "memcpy",        "memset",       "host_gap",    "event_record",
    "event_wait", "event_sync",    "stream_sync",  "device_sync", "collective",
    "peer_group", "segment_alloc", "segment_free", "marker"};

// Behind the bracket that closes the one at `open`; the end where none does.
size_t BehindClosing(std::string_view text, size_t open) {
  const char close = text[open] == '<' ? '>' : ')';
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    const bool arrow = text[i] == '>' && text[i - 1] == '-';
    depth += text[i] == text[open] ? 1 : 0;
    if (text[i] == close && !arrow && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

}  // namespace

const char* OpKindName(OpKind kind) {
  return kOpKindNames.at(static_cast<size_t>(kind));
}

const char* RankSourceName(RankSource source) {
  switch (source) {
    case RankSource::kRole:
      return "role";
    case RankSource::kRecorded:
      return "recorded";
    case RankSource::kSandbox:
      return "sandbox";
    case RankSource::kLike:
      return "like";
  }
  return "";
}

std::string DescribeOp(const Program& program,
                       uint32_t op,
                       const std::vector<std::string>& strings,
                       const std::vector<KernelSignature>& signatures) {
  const SlotNames slots = {
      [](uint16_t slot) { return fmt::format("communicator slot {}", slot); },
      [](uint16_t slot) { return fmt::format("peer slot {}", slot); },
  };
  return Describe(program, op, strings, signatures, slots);
}

std::string DescribeOp(const Graph& graph, Rank rank, uint32_t op) {
  const SlotNames slots = {
      [&](uint16_t slot) {
        const auto comms = graph.ranks.comms(rank);
        if (slot >= comms.size()) {
          return fmt::format("communicator slot {}", slot);
        }
        return fmt::format("communicator {}",
                           Name(graph.strings, graph.communicators.name[comms[slot]]));
      },
      [&](uint16_t slot) {
        const auto peers = graph.ranks.peers(rank);
        return slot < peers.size() ? fmt::format("rank {}", peers[slot])
                                   : fmt::format("peer slot {}", slot);
      },
  };
  return Describe(graph.role_of(rank).program, op, graph.strings, graph.signatures, slots);
}

std::string SignatureKey(const KernelSignature& signature,
                         const std::vector<std::string>& strings) {
  const MatmulShape& matmul = signature.matmul;
  // Names go last and behind their length, so that no name can imitate a field.
  std::string key = fmt::format(
      "{},{},{};{},{},{};{},{},{},{},{},{},{},{};", signature.grid[0], signature.grid[1],
      signature.grid[2], signature.block[0], signature.block[1], signature.block[2], matmul.m,
      matmul.n, matmul.k, matmul.batch, static_cast<int>(matmul.input),
      static_cast<int>(matmul.output), matmul.transpose_a, matmul.transpose_b);
  for (const TensorShape& input : signature.inputs) {
    key += fmt::format("{}:", static_cast<int>(input.dtype));
    for (const int64_t dim : input.dims) {
      key += fmt::format("{},", dim);
    }
    key += ";";
  }
  const std::string name = Name(strings, signature.name.value());
  return fmt::format("{}|{}|{}{}", key, name.size(), name,
                     Name(strings, signature.framework_op.value()));
}

std::string DescribeRankOp(const Graph& graph, Rank rank, uint32_t op) {
  return fmt::format("rank {} op {}: {}", rank.value(), op, DescribeOp(graph, rank, op));
}

std::string WithoutTemplates(std::string_view description) {
  constexpr size_t kShown = 32;  // longer ones are left out
  std::string text;
  for (size_t i = 0; i < description.size();) {
    const bool begins = description[i] == '<' && i > 0 && std::isalnum(description[i - 1]) != 0;
    const bool arguments = description[i] == '(' && text.ends_with("<...>");
    const size_t end = begins || arguments ? BehindClosing(description, i) : i + 1;
    if (end - i > kShown) {
      text += begins ? "<...>" : "(...)";
    } else {
      text += description.substr(i, end - i);
    }
    i = end;
  }
  return text;
}

std::string LayoutText(const ParallelSizes& sizes) {
  const std::string context = sizes.cp > 1 ? fmt::format(" × cp {}", sizes.cp) : std::string();
  const std::string expert = sizes.ep > 1 ? fmt::format(" (ep {})", sizes.ep) : std::string();
  return fmt::format("tp {}{} × pp {} × dp {}{}, vpp {}", sizes.tp, context, sizes.pp, sizes.dp,
                     expert, sizes.vpp);
}

std::string MembersText(std::span<const uint32_t> members) {
  constexpr size_t kShown = 4;
  if (members.empty()) {
    return "none";
  }
  const bool consecutive = members.back() - members.front() + 1 == members.size();
  if (consecutive && members.size() > 2) {
    return fmt::format("{}-{}", members.front(), members.back());
  }
  if (members.size() <= kShown) {
    return fmt::format("{}", fmt::join(members, ", "));
  }
  return fmt::format("{}, ... {}", fmt::join(members.first(kShown - 1), ", "), members.back());
}

}  // namespace prism::graph
