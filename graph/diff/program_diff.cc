#include "graph/diff/program_diff.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/describe.h"

namespace prism::graph {
namespace {

// One op as a comparable value. `signature` is interned over both sides.
struct OpValue {
  OpKind kind;
  uint8_t flags;
  uint16_t stream;
  uint16_t comm_slot;
  uint32_t signature;
  uint32_t dep_distance;  // how many ops back; survives what is inserted before both
  int64_t value;

  bool operator==(const OpValue&) const = default;
};

class Interner {
 public:
  uint32_t Intern(const std::string& text) {
    return ids_.try_emplace(text, static_cast<uint32_t>(ids_.size())).first->second;
  }

 private:
  std::map<std::string, uint32_t> ids_;
};

std::string GroupKey(const PeerGroup& group) {
  std::string key = "peers";
  for (const PeerTransfer& transfer : group.transfers) {
    key += fmt::format(" {},{},{},{}", transfer.is_send, transfer.comm_slot, transfer.peer_slot,
                       transfer.bytes);
  }
  return key;
}

std::string CollectiveKey(const CollectiveShape& shape) {
  return fmt::format("collective {},{},{},{},{}", static_cast<int>(shape.kind),
                     static_cast<int>(shape.dtype), static_cast<int>(shape.reduce), shape.root,
                     shape.bytes);
}

// What the `signature` of an op refers to, as interned ids by index; one table per kind of op.
struct SignatureIds {
  std::vector<uint32_t> kernels;
  std::vector<uint32_t> collectives;
  std::vector<uint32_t> groups;
  std::vector<uint32_t> strings;
};

SignatureIds InternTables(const ProgramView& view, Interner& interner) {
  SignatureIds ids;
  for (const KernelSignature& signature : *view.signatures) {
    ids.kernels.push_back(interner.Intern("kernel " + SignatureKey(signature, *view.strings)));
  }
  for (const CollectiveShape& shape : view.program->collectives) {
    ids.collectives.push_back(interner.Intern(CollectiveKey(shape)));
  }
  for (const PeerGroup& group : view.program->peer_groups) {
    ids.groups.push_back(interner.Intern(GroupKey(group)));
  }
  for (const std::string& text : *view.strings) {
    ids.strings.push_back(interner.Intern("marker " + text));
  }
  return ids;
}

std::vector<OpValue> OpValues(const ProgramView& view, Interner& interner) {
  const SignatureIds ids = InternTables(view, interner);
  const Program& program = *view.program;
  const auto look_up = [](const std::vector<uint32_t>& table, uint32_t index) {
    return index < table.size() ? table[index] : kNoDep;
  };
  std::vector<OpValue> values;
  values.reserve(program.size());
  for (uint32_t op = 0; op < program.size(); ++op) {
    uint32_t signature = 0;
    switch (program.kind[op]) {
      case OpKind::kKernel:
        signature = look_up(ids.kernels, program.signature[op]);
        break;
      case OpKind::kCollective:
        signature = look_up(ids.collectives, program.signature[op]);
        break;
      case OpKind::kPeerGroup:
        signature = look_up(ids.groups, program.signature[op]);
        break;
      case OpKind::kMarker:
        signature = look_up(ids.strings, program.signature[op]);
        break;
      default:
        break;
    }
    const uint32_t dep = program.dep[op];
    values.push_back({program.kind[op], program.flags[op], program.stream[op],
                      program.comm_slot[op], signature, dep == kNoDep ? kNoDep : op - dep,
                      program.value[op]});
  }
  return values;
}

// Length of the longest common subsequence of a[first, a_end) and b[first, b_end).
size_t CommonSubsequence(const std::vector<OpValue>& a,
                         const std::vector<OpValue>& b,
                         size_t first,
                         std::pair<size_t, size_t> ends) {
  const size_t width = ends.second - first;
  std::vector<uint32_t> row(width + 1, 0);
  for (size_t i = first; i < ends.first; ++i) {
    uint32_t diagonal = 0;
    for (size_t j = 0; j < width; ++j) {
      const uint32_t above = row[j + 1];
      row[j + 1] = a[i] == b[first + j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row[width];
}

}  // namespace

ProgramDifference CompareOps(const ProgramView& left, const ProgramView& right) {
  Interner interner;
  const std::vector<OpValue> a = OpValues(left, interner);
  const std::vector<OpValue> b = OpValues(right, interner);
  size_t first = 0;
  while (first < a.size() && first < b.size() && a[first] == b[first]) {
    ++first;
  }
  ProgramDifference difference;
  if (first == a.size() && first == b.size()) {
    return difference;
  }
  size_t a_end = a.size();
  size_t b_end = b.size();
  while (a_end > first && b_end > first && a[a_end - 1] == b[b_end - 1]) {
    --a_end;
    --b_end;
  }
  // 16 million cells take a few tens of milliseconds; beyond that the middle counts as changed.
  constexpr size_t kMaxCells = size_t{1} << 24U;
  size_t common = 0;
  if ((a_end - first) <= kMaxCells / std::max<size_t>(1, b_end - first)) {
    common = CommonSubsequence(a, b, first, {a_end, b_end});
  }
  const auto only_left = static_cast<int64_t>(a_end - first - common);
  const auto only_right = static_cast<int64_t>(b_end - first - common);
  difference.changed = std::min(only_left, only_right);
  difference.removed = only_left - difference.changed;
  difference.added = only_right - difference.changed;
  difference.first = static_cast<int64_t>(first);
  const auto op = static_cast<uint32_t>(first);
  if (first < a.size()) {
    difference.left = DescribeOp(*left.program, op, *left.strings, *left.signatures);
  }
  if (first < b.size()) {
    difference.right = DescribeOp(*right.program, op, *right.strings, *right.signatures);
  }
  return difference;
}

}  // namespace prism::graph
