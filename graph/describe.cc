#include "graph/describe.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace prism::graph {
namespace {

std::string Name(std::span<const std::string> strings, uint32_t id) {
  return id < strings.size() ? strings[id] : fmt::format("string #{}", id);
}

const char* ReduceName(ReduceOp reduce) {
  constexpr const char* kNames[] = {"", " (sum)", " (prod)", " (max)", " (min)", " (avg)"};
  return kNames[static_cast<size_t>(reduce)];
}

std::string DescribeCollective(const OpRow& op, const OpNames& names) {
  if (op.signature >= names.collectives.size()) {
    return fmt::format("collective #{}", op.signature);
  }
  const CollectiveShape& shape = names.collectives[op.signature];
  const std::string root = shape.root < 0 ? "" : fmt::format(" from root {}", shape.root);
  return fmt::format("{}{} of {} bytes {}{} on {}", CollectiveKindName(shape.kind),
                     ReduceName(shape.reduce), shape.bytes, DataTypeName(shape.dtype), root,
                     names.communicator(op.comm_slot));
}

std::string DescribePeerGroup(const OpRow& op, const OpNames& names) {
  if (op.signature >= names.peer_groups.size()) {
    return fmt::format("peer group #{}", op.signature);
  }
  std::string text;
  for (const PeerTransfer& transfer : names.peer_groups[op.signature].transfers) {
    text += fmt::format("{}{} {} bytes {} {} on {}", text.empty() ? "" : " + ",
                        transfer.is_send ? "send" : "receive", transfer.bytes,
                        transfer.is_send ? "to" : "from", names.peer(transfer.peer_slot),
                        names.communicator(transfer.comm_slot));
  }
  return text.empty() ? "empty peer group" : text;
}

// "4096x1536x12288 batch 1 tn bfloat16", with BLAS's letters for transposed or not.
std::string DescribeMatmul(const MatmulShape& matmul) {
  std::string text = fmt::format("{}x{}x{} batch {} {}{} {}", matmul.m, matmul.n, matmul.k,
                                 matmul.batch, matmul.transpose_a ? 't' : 'n',
                                 matmul.transpose_b ? 't' : 'n', DataTypeName(matmul.input));
  return matmul.output == matmul.input ? text
                                       : fmt::format("{} to {}", text, DataTypeName(matmul.output));
}

std::string DescribeKernel(const OpRow& op, const OpNames& names) {
  if (op.signature >= names.signatures.size()) {
    return fmt::format("kernel #{}", op.signature);
  }
  const KernelSignature& signature = names.signatures[op.signature];
  std::string text = fmt::format("kernel {}", Name(names.strings, signature.name.value()));
  if (signature.matmul.m > 0) {
    text += fmt::format(" {}", DescribeMatmul(signature.matmul));
  }
  if (signature.grid[0] > 0) {
    text += fmt::format(" grid {} block {}", fmt::join(signature.grid, ","),
                        fmt::join(signature.block, ","));
  }
  if ((op.flags & kDurationFixed) != 0) {
    text += fmt::format(" of {} ns", op.value);
  }
  const std::string framework_op = Name(names.strings, signature.framework_op.value());
  return framework_op.empty()
             ? text
             : fmt::format("{} ({})", text, DescribeFrameworkOp(framework_op, signature.inputs));
}

const char* DirectionName(uint8_t flags) {
  return (flags & kHostToDevice) != 0   ? "host to device"
         : (flags & kDeviceToHost) != 0 ? "device to host"
                                        : "device to device";
}

std::string DescribeEvent(uint32_t dep) {
  return dep == kNoDep ? "an event of an earlier iteration"
                       : fmt::format("the event of op {}", dep);
}

std::string Describe(const OpRow& op, const OpNames& names) {
  switch (op.kind) {
    case OpKind::kKernel:
      return DescribeKernel(op, names);
    case OpKind::kMemcpy:
      return fmt::format("copy of {} bytes {}", op.value, DirectionName(op.flags));
    case OpKind::kMemset:
      return fmt::format("memset of {} bytes", op.value);
    case OpKind::kHostGap:
      return fmt::format("host gap of {} ns", op.value);
    case OpKind::kEventRecord:
      return "event record";
    case OpKind::kEventWait:
      return fmt::format("stream {} waits for {}", op.stream, DescribeEvent(op.dep));
    case OpKind::kEventSync:
      return fmt::format("host waits for {}", DescribeEvent(op.dep));
    case OpKind::kStreamSync:
      return fmt::format("host waits for stream {}", op.stream);
    case OpKind::kDeviceSync:
      return "host waits for the device";
    case OpKind::kCollective:
      return DescribeCollective(op, names);
    case OpKind::kPeerGroup:
      return DescribePeerGroup(op, names);
    case OpKind::kSegmentAlloc:
      return fmt::format("segment of {} bytes allocated", op.value);
    case OpKind::kSegmentFree:
      return fmt::format("segment of {} bytes freed", op.value);
    case OpKind::kMarker:
      return fmt::format("marker {} {}", Name(names.strings, op.signature),
                         (op.flags & kMarkerBegin) != 0 ? "begins" : "ends");
  }
  return fmt::format("op of unknown kind {}", static_cast<int>(op.kind));
}

constexpr std::array<const char*, kOpKindCount> kOpKindNames = {
    "kernel",     "memcpy",        "memset",       "host_gap",    "event_record",
    "event_wait", "event_sync",    "stream_sync",  "device_sync", "collective",
    "peer_group", "segment_alloc", "segment_free", "marker"};

// Position after the bracket that closes the one at `open`; the end of the text if none does.
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

OpRow RowOf(const Program& program, uint32_t op) {
  return {.kind = program.kind[op],
          .flags = program.flags[op],
          .stream = program.stream[op],
          .comm_slot = program.comm_slot[op],
          .signature = program.signature[op],
          .dep = program.dep[op],
          .value = program.value[op]};
}

const char* OpKindName(OpKind kind) {
  return kOpKindNames.at(static_cast<size_t>(kind));
}

const char* RankSourceName(RankSource source) {
  constexpr const char* kNames[] = {"role", "recorded", "sandbox", "like"};
  return kNames[static_cast<size_t>(source)];
}

std::string DescribeOp(const OpRow& op, const OpNames& names) {
  const std::string text = Describe(op, names);
  const bool named = op.kind == OpKind::kEventWait || op.kind == OpKind::kStreamSync;
  return HasStream(op.kind) && !named ? fmt::format("{} on stream {}", text, op.stream) : text;
}

std::string DescribeOp(const Program& program,
                       uint32_t op,
                       const std::vector<std::string>& strings,
                       const std::vector<KernelSignature>& signatures) {
  return DescribeOp(
      RowOf(program, op),
      {.strings = strings,
       .signatures = signatures,
       .collectives = program.collectives,
       .peer_groups = program.peer_groups,
       .communicator = [](uint16_t slot) { return fmt::format("communicator slot {}", slot); },
       .peer = [](uint16_t slot) { return fmt::format("peer slot {}", slot); }});
}

namespace {

// " #2": the second of the rank's communicators that have this one's name and members; "" where it
// is the only one.
std::string AmongAlike(const Graph& graph, Rank rank, uint32_t comm) {
  const CommunicatorTable& table = graph.communicators;
  const auto comms = graph.ranks.comms(rank);
  std::vector<uint32_t> alike;
  std::ranges::copy_if(comms, std::back_inserter(alike), [&](uint32_t other) {
    return table.name[other] == table.name[comm] &&
           std::ranges::equal(table.members_of(CommId(other)), table.members_of(CommId(comm)));
  });
  const auto before = std::ranges::count_if(alike, [comm](uint32_t other) { return other < comm; });
  return alike.size() > 1 ? fmt::format(" #{}", before + 1) : "";
}

}  // namespace

std::string DescribeOp(const Graph& graph, Rank rank, uint32_t op) {
  const Program& program = graph.role_of(rank).program;
  const auto communicator = [&](uint16_t slot) {
    const auto comms = graph.ranks.comms(rank);
    if (slot >= comms.size()) {
      return fmt::format("communicator slot {}", slot);
    }
    return fmt::format("communicator {}{} of ranks {}",
                       Name(graph.strings, graph.communicators.name[comms[slot]]),
                       AmongAlike(graph, rank, comms[slot]),
                       MembersText(graph.communicators.members_of(CommId(comms[slot]))));
  };
  const auto peer = [&](uint16_t slot) {
    const auto peers = graph.ranks.peers(rank);
    return slot < peers.size() ? fmt::format("rank {}", peers[slot])
                               : fmt::format("peer slot {}", slot);
  };
  return DescribeOp(RowOf(program, op), {.strings = graph.strings,
                                         .signatures = graph.signatures,
                                         .collectives = program.collectives,
                                         .peer_groups = program.peer_groups,
                                         .communicator = communicator,
                                         .peer = peer});
}

std::string DescribeFrameworkOp(std::string_view op, std::span<const TensorShape> inputs) {
  std::string text(op);
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format("{}[{}] {}", i == 0 ? " " : ", ", fmt::join(inputs[i].dims, ","),
                        DataTypeName(inputs[i].dtype));
  }
  return text;
}

std::string SignatureKey(const KernelSignature& signature,
                         const std::vector<std::string>& strings) {
  const MatmulShape& matmul = signature.matmul;
  // Names come last, each after its length, so that no name can imitate a field.
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

namespace {

// Where the shown tensors of a framework op end; npos: all are shown.
size_t EndOfShownTensors(std::string_view text) {
  constexpr int kShownTensors = 3;
  size_t end = text.find("] ");
  for (int shown = 0; shown < kShownTensors && end != text.npos; ++shown) {
    end = text.find(", [", end + 1);
  }
  return end;
}

// A description with only the first of its tensors. Only lists of tensors have ", [" in them.
std::string WithFewTensors(std::string text) {
  const size_t end = EndOfShownTensors(text);
  if (end == text.npos) {
    return text;
  }
  size_t left = 0;
  size_t last = end;
  for (size_t next = end; next != text.npos; next = text.find(", [", next + 1)) {
    ++left;
    last = next;
  }
  const size_t behind = std::min(text.find(')', last), text.size());
  return fmt::format("{}, ... {} more{}", text.substr(0, end), left, text.substr(behind));
}

}  // namespace

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
  return WithFewTensors(std::move(text));
}

std::string ContextText(int32_t cp) {
  return cp > 1 ? fmt::format(" × cp {}", cp) : std::string();
}

std::string LayoutText(const ParallelSizes& sizes) {
  const std::string expert = sizes.ep > 1 ? fmt::format(" (ep {})", sizes.ep) : std::string();
  return fmt::format("tp {}{} × pp {} × dp {}{}, vpp {}", sizes.tp, ContextText(sizes.cp), sizes.pp,
                     sizes.dp, expert, sizes.vpp);
}

bool KnowsChunks(const JobSpec& job) {
  return !job.user_program;
}

std::string LayoutText(const JobSpec& job) {
  std::string text = LayoutText(job.parallel);
  if (!KnowsChunks(job)) {
    text.resize(text.rfind(", vpp"));
  }
  return text;
}

std::string UnitText(const Parameter& parameter) {
  return parameter.unit == "1" ? "" : " " + parameter.unit;
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

std::string RanksText(std::span<const Rank> ranks) {
  std::vector<uint32_t> numbers;
  std::ranges::transform(ranks, std::back_inserter(numbers), &Rank::value);
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return fmt::format("{} {}", numbers.size() == 1 ? "rank" : "ranks", MembersText(numbers));
}

}  // namespace prism::graph
