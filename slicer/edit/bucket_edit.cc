// EditBuckets (slicer/edit/edit_steps.h): consecutive collectives of one communicator, stream and
// kind become one, or each becomes several. Collectives may be merged as long as nothing that was
// issued in between needs the result of one of them; the merged one is issued where its last part
// was, and whatever waited for a part waits for all of it. A size in bytes is a cap as DDP has it:
// a bucket closes when it reaches the cap, so that weights are never divided and one that is larger
// than the cap is a bucket by itself; the first bucket of a program's all-reduces closes at 1 MiB.
// Calls inside an NCCL group stay as they
// are. Copies into and out of buckets stay too, as the graph does not say which they are.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/describe.h"
#include "slicer/edit/collective_picker.h"
#include "slicer/edit/edit_steps.h"
#include "slicer/edit/optimizer_calls.h"
#include "slicer/edit/program_rewriter.h"

namespace prism::slicer {
namespace {

using graph::CollectiveShape;
using graph::OpKind;
using graph::Program;

constexpr uint32_t kNone = graph::kNoDep;
constexpr int64_t kMaxCollectives = int64_t{1} << 20;  // that a program's become

bool SameButBytes(CollectiveShape a, const CollectiveShape& b) {
  a.bytes = b.bytes;
  return a == b;
}

class RoleBuckets {
 public:
  RoleBuckets(const CollectivePicker& picker, const BucketEdit& edit, const Program& program)
      : picker_(picker),
        edit_(edit),
        program_(program),
        waited_(WaitedFor(program)),
        last_of_(program.size(), kNone) {}

  Program Rewrite(uint32_t role, const graph::Graph& graph) {
    is_ddp_ = graph.job.user_program;
    FindWeights(role, FindOptimizerCalls(KernelTables(graph), program_));
    FindGroups(role);
    ProgramRewriter rewriter(program_);
    while (rewriter.next() < program_.size()) {
      const uint32_t op = rewriter.next();
      if (!IsAlone(role, op)) {
        rewriter.Keep();
      } else if (last_of_[op] != kNone && last_of_[op] != op) {
        ++before_;
        rewriter.Drop();
      } else {
        ++before_;
        Emit(op, &rewriter);
      }
    }
    return rewriter.Finish();
  }

  [[nodiscard]] int64_t before() const { return before_; }
  [[nodiscard]] int64_t after() const { return after_; }
  [[nodiscard]] bool too_many() const { return after_ > kMaxCollectives; }

 private:
  struct Group {
    std::vector<uint32_t> members;
    int64_t bytes = 0;
  };
  using Place = std::pair<uint16_t, uint16_t>;  // stream and communicator slot

  [[nodiscard]] const CollectiveShape& Shape(uint32_t op) const {
    return program_.collectives[program_.signature[op]];
  }

  // Those that an NCCL group holds together stay as they are.
  [[nodiscard]] bool IsAlone(uint32_t role, uint32_t op) const {
    return picker_.Picks(role, program_, op) &&
           (program_.flags[op] & graph::kGroupedWithNext) == 0 && !IsGroupedWithPrevious(op);
  }

  [[nodiscard]] bool IsGroupedWithPrevious(uint32_t op) const {
    for (uint32_t before = op; before-- > 0;) {
      if (program_.kind[before] == graph::OpKind::kCollective &&
          program_.stream[before] == program_.stream[op]) {
        return (program_.flags[before] & graph::kGroupedWithNext) != 0;
      }
    }
    return false;
  }

  [[nodiscard]] bool Fits(const Group& group, uint32_t op) const {
    if (!SameButBytes(Shape(group.members.front()), Shape(op))) {
      return false;
    }
    return edit_.merge > 0 ? static_cast<int64_t>(group.members.size()) < edit_.merge
                           : group.bytes < CapOf(group.members.front());
  }

  // That of the bucket which begins with `op`.
  [[nodiscard]] int64_t CapOf(uint32_t op) const {
    constexpr int64_t kFirst = 1 << 20;  // torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
    const bool small =
        is_ddp_ && op == first_ && Shape(op).kind == graph::CollectiveKind::kAllReduce;
    return small ? std::min(kFirst, edit_.bytes) : edit_.bytes;
  }

  // Which weights each collective carries, in bytes: those that the optimizer updates, from the
  // last to the first, if they add up to the collectives one by one.
  void FindWeights(uint32_t role, const std::vector<OptimizerCall>& calls) {
    std::vector<int64_t> elements;
    for (const OptimizerCall& call : calls) {
      for (const graph::TensorShape& tensor : call.tensors) {
        elements.push_back(tensor.ElementCount());
      }
    }
    for (uint32_t op = 0; op < program_.size(); ++op) {
      if (!IsAlone(role, op)) {
        continue;
      }
      first_ = first_ == kNone ? op : first_;
      std::vector<int64_t>& weights = weights_[op];
      int64_t left = Shape(op).bytes;
      while (left > 0 && !elements.empty()) {
        weights.push_back(elements.back() * DataTypeBytes(Shape(op).dtype));
        left -= weights.back();
        elements.pop_back();
      }
      if (left != 0) {
        weights_.clear();
        return;
      }
    }
  }

  // Whether the op must come after the collectives already in the group: then no more may join.
  [[nodiscard]] bool Ends(const Place& place, const Group& group, uint32_t op) const {
    const OpKind kind = program_.kind[op];
    const bool on_stream = graph::HasStream(kind) && program_.stream[op] == place.first;
    switch (kind) {
      case OpKind::kEventWait:
      case OpKind::kEventSync: {
        const uint32_t record = program_.dep[op];
        return record != kNone && record > group.members.front() &&
               program_.stream[record] == place.first;
      }
      case OpKind::kDeviceSync:
        return true;
      case OpKind::kCollective:
        return on_stream || program_.comm_slot[op] == place.second;
      case OpKind::kEventRecord:
        return false;
      default:
        return on_stream;
    }
  }

  void FindGroups(uint32_t role) {
    if (edit_.split > 0) {
      return;
    }
    std::map<Place, Group> open;
    for (uint32_t op = 0; op < program_.size(); ++op) {
      const bool picked = IsAlone(role, op);
      const Place own = {program_.stream[op], program_.comm_slot[op]};
      for (auto at = open.begin(); at != open.end();) {
        const bool joins = picked && at->first == own && Fits(at->second, op);
        if (!joins && Ends(at->first, at->second, op)) {
          Close(at->second);
          at = open.erase(at);
        } else {
          ++at;
        }
      }
      if (picked) {
        Group& group = open[own];
        group.members.push_back(op);
        group.bytes += Shape(op).bytes;
      }
    }
    for (const auto& [place, group] : open) {
      Close(group);
    }
  }

  void Close(const Group& group) {
    for (const uint32_t op : group.members) {
      last_of_[op] = group.members.back();
    }
    groups_[group.members.back()] = group;
  }

  // Emits the op with its group, or in parts.
  void Emit(uint32_t op, ProgramRewriter* rewriter) {
    const auto found = groups_.find(op);
    const bool merges = found != groups_.end() && found->second.members.size() > 1;
    CollectiveShape shape = Shape(op);
    const std::vector<int64_t> parts =
        merges ? std::vector<int64_t>{found->second.bytes} : PartsOf(op);
    after_ += static_cast<int64_t>(parts.size());
    if ((!merges && parts.size() == 1) || too_many()) {
      rewriter->Keep();
      return;
    }
    rewriter->Drop();
    for (const int64_t bytes : parts) {
      shape.bytes = bytes;
      rewriter->AddCollective(graph::RowOf(program_, op), shape);
    }
    if (merges) {
      WaitForAll(found->second, rewriter);
    }
  }

  // The sizes of what a collective becomes: of whole weights if they are known, else equal.
  [[nodiscard]] std::vector<int64_t> PartsOf(uint32_t op) const {
    const CollectiveShape& shape = Shape(op);
    const auto known = weights_.find(op);
    std::vector<int64_t> parts;
    if (edit_.bytes > 0 && known != weights_.end()) {
      int64_t cap = CapOf(op);
      int64_t open = 0;
      for (const int64_t weight : known->second) {
        open += weight;
        if (open >= cap) {
          parts.push_back(open);
          open = 0;
          cap = edit_.bytes;
        }
      }
      if (open > 0) {
        parts.push_back(open);
      }
      return parts;
    }
    const int64_t unit = std::max<int64_t>(DataTypeBytes(shape.dtype), 1);
    int64_t count = edit_.split > 0 ? edit_.split : 1;
    if (edit_.bytes > 0) {
      count = shape.bytes / edit_.bytes;
    }
    count = std::clamp<int64_t>(count, 1, std::max<int64_t>(shape.bytes / unit, 1));
    if (count > kMaxCollectives) {
      return std::vector<int64_t>(static_cast<size_t>(kMaxCollectives) + 1);
    }
    const int64_t each = shape.bytes / count / unit * unit;
    parts.assign(static_cast<size_t>(count - 1), each);
    parts.push_back(shape.bytes - (count - 1) * each);
    return parts;
  }

  // Whatever waited for one of the group waits for all of it.
  void WaitForAll(const Group& group, ProgramRewriter* rewriter) const {
    const uint16_t stream = program_.stream[group.members.front()];
    std::vector<uint32_t> records;
    for (uint32_t op = group.members.front(); op < group.members.back(); ++op) {
      if (waited_[op] && program_.stream[op] == stream) {
        records.push_back(op);
      }
    }
    if (records.empty()) {
      return;
    }
    const uint32_t next = rewriter->next();
    const bool has_record = next < program_.size() && program_.kind[next] == OpKind::kEventRecord &&
                            program_.stream[next] == stream;
    const uint32_t end = has_record ? rewriter->Keep() : rewriter->Record(stream);
    for (const uint32_t record : records) {
      rewriter->Redirect(record, end);
    }
  }

  const CollectivePicker& picker_;
  const BucketEdit& edit_;
  const Program& program_;
  std::vector<bool> waited_;
  std::vector<uint32_t> last_of_;     // by op: the last of its group
  std::map<uint32_t, Group> groups_;  // by their last op
  bool is_ddp_ = false;               // a program's own, not that of a described framework
  uint32_t first_ = kNone;            // collective of the program
  std::map<uint32_t, std::vector<int64_t>> weights_;  // by collective; empty: not known
  int64_t before_ = 0;
  int64_t after_ = 0;
};

}  // namespace

Status EditBuckets(const BucketEdit& edit, EditedGraph* edited) {
  graph::Graph& graph = edited->graph;
  PRISM_ASSIGN_OR_RETURN(const CollectivePicker picker, CollectivePicker::Create(graph, edit.of));
  int64_t before = 0;
  int64_t after = 0;
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    RoleBuckets buckets(picker, edit, graph.roles[role].program);
    Program program = buckets.Rewrite(role, graph);
    if (buckets.too_many()) {
      return InvalidArgument(fmt::format(
          "buckets of '{}': this makes more than {} collectives in role '{}'; use larger parts",
          edit.of.communicator, kMaxCollectives, graph.roles[role].name));
    }
    before += buckets.before();
    after += buckets.after();
    graph.roles[role].program = std::move(program);
  }
  if (before == after && edit.bytes == 0) {
    return InvalidArgument(fmt::format(
        "no collectives of '{}' can be {}", edit.of.communicator,
        edit.split > 0 ? "split"
                       : "merged, because others, or waits for their results, lie between them"));
  }
  edited->assumptions.push_back(
      fmt::format("buckets of '{}': {} collectives (in the programs of all roles) became {}; a "
                  "merged one is issued where its last part was, the parts of a split one where it "
                  "was; copies into buckets are unchanged",
                  edit.of.communicator, before, after));
  edited->memory.push_back(
      fmt::format("buckets of '{}': memory not known, because the graph does not say which buffers "
                  "a bucket has",
                  edit.of.communicator));
  return OkStatus();
}

}  // namespace prism::slicer
