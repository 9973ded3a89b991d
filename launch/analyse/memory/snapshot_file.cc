#include "launch/analyse/memory/snapshot_file.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "launch/analyse/flight/pickle_fields.h"

namespace prism::launch {
namespace {

using replayer::AllocatorAction;
using replayer::BlockInfo;
using replayer::BlockState;
using replayer::PickleTree;
using replayer::PickleValue;
using replayer::PoolKind;
using replayer::SegmentState;
using Kind = PickleValue::Kind;

constexpr size_t kMostFrames = 16;
constexpr int64_t kMostBytes = int64_t{1} << 40;  // of anything in a device: sums fit 64 bits

constexpr std::pair<std::string_view, AllocatorAction> kActions[] = {
    {"alloc", AllocatorAction::kAlloc},
    {"free_requested", AllocatorAction::kFreeRequested},
    {"free_completed", AllocatorAction::kFreeCompleted},
    {"segment_alloc", AllocatorAction::kSegmentAlloc},
    {"segment_free", AllocatorAction::kSegmentFree},
    {"segment_map", AllocatorAction::kSegmentMap},
    {"segment_unmap", AllocatorAction::kSegmentUnmap},
    {"oom", AllocatorAction::kOutOfMemory},
    {"snapshot", AllocatorAction::kSnapshot},
};

constexpr std::pair<std::string_view, BlockState> kBlockStates[] = {
    {"inactive", BlockState::kFree},
    {"active_allocated", BlockState::kAllocated},
    {"active_awaiting_free", BlockState::kPendingFree},
    {"active_pending_free", BlockState::kPendingFree},
};

// Parts of the names of functions of torch's that every stack of C++ begins with.
constexpr std::string_view kAllocating[] = {
    "unwind",     "CapturedTraceback", "gather_with_cpp",   "Allocator",  "empty_generic",
    "empty_cuda", "empty_strided",     "at::detail::empty", "create_out", "set_output",
    "??"};

struct Frame {
  std::string function;
  std::string file;
  int64_t line = 0;

  [[nodiscard]] bool IsPython() const { return file.ends_with(".py"); }
  [[nodiscard]] bool IsOf(std::string_view folder) const {
    return file.find(folder) != std::string::npos;
  }
  [[nodiscard]] std::string Text() const {
    return file.empty() ? function : fmt::format("{} {}:{}", function, file, line);
  }
};

std::string PhaseOf(const std::vector<Frame>& frames) {
  const auto any = [&](auto is) { return std::ranges::any_of(frames, is); };
  if (frames.empty()) {
    return "no stack";
  }
  if (any([](const Frame& frame) { return frame.IsOf("optim/"); })) {
    return "optimizer";
  }
  const bool backward = any([](const Frame& frame) {
    return frame.function == "backward" || frame.IsOf("autograd/") ||
           frame.function.find("torch::autograd::Engine") != std::string::npos;
  });
  return backward ? "backward" : "other";
}

// Of the program, else of Python, else behind what records the stack and allocates.
const Frame& SiteIn(const std::vector<Frame>& frames) {
  const auto in_program = [](const Frame& frame) {
    return frame.IsPython() && !frame.IsOf("/torch/");
  };
  const auto behind_allocator = [](const Frame& frame) {
    return std::ranges::none_of(kAllocating, [&](std::string_view word) {
      return frame.function.find(word) != std::string::npos;
    });
  };
  auto site = std::ranges::find_if(frames, in_program);
  site = site == frames.end() ? std::ranges::find_if(frames, &Frame::IsPython) : site;
  site = site == frames.end() ? std::ranges::find_if(frames, behind_allocator) : site;
  return site == frames.end() ? frames.front() : *site;
}

AllocationStack StackOf(const std::vector<Frame>& frames) {
  AllocationStack stack;
  stack.phase = PhaseOf(frames);
  if (frames.empty()) {
    stack.site = "(no stack)";
    return stack;
  }
  stack.site = SiteIn(frames).Text();
  for (size_t i = 0; i < std::min(frames.size(), kMostFrames); ++i) {
    stack.text += (i == 0 ? "" : " < ") + frames[i].Text();
  }
  return stack;
}

class SnapshotReader {
 public:
  SnapshotReader(const PickleTree& tree, size_t bytes) : tree_(tree), fields_(tree, bytes) {
    file_.stacks = {StackOf({})};
  }

  // False: it is no snapshot.
  bool Read() {
    const PickleValue& root = tree_.root();
    const std::vector<const PickleValue*> segments = fields_.Dicts(tree_.Find(root, "segments"));
    const std::vector<const PickleValue*> traces =
        fields_.Elements(tree_.Find(root, "device_traces"));
    for (const PickleValue* const segment : segments) {
      ReadSegment(*segment);
    }
    for (size_t device = 0; device < traces.size() && !fields_.failed(); ++device) {
      for (const PickleValue* const event : fields_.Dicts(traces[device])) {
        ReadEvent(*event, &DeviceOf(static_cast<int64_t>(device)));
      }
    }
    if (const PickleValue* const settings = tree_.Find(root, "allocator_settings")) {
      ReadSettings(*settings);
    }
    for (auto& [number, device] : devices_) {
      std::ranges::sort(device.segments, {}, &SegmentState::address);
      file_.devices.push_back(std::move(device));
    }
    return !fields_.failed();
  }

  SnapshotFile TakeFile() { return std::move(file_); }

 private:
  DeviceSnapshot& DeviceOf(int64_t number) {
    DeviceSnapshot& device = devices_[number];
    device.device = number;
    return device;
  }

  int64_t Bytes(const PickleValue& dict, const char* key, std::optional<int64_t> otherwise = {}) {
    const int64_t bytes = fields_.Int(dict, key, otherwise);
    if (bytes < 0 || bytes > kMostBytes) {
      fields_.Fail();
    }
    return fields_.failed() ? 0 : bytes;
  }

  template <typename Value, size_t N>
  Value Named(const std::pair<std::string_view, Value> (&names)[N], const std::string& name) {
    const auto* const found =
        std::ranges::find(names, name, [](const auto& one) { return one.first; });
    if (found == std::end(names)) {
      fields_.Fail();
      return names[0].second;
    }
    return found->second;
  }

  uint32_t Stack(const PickleValue& dict) {
    const PickleValue* const list = tree_.Find(dict, "frames");
    if (list == nullptr || list->count == 0) {
      return kNoStack;
    }
    const auto [known, is_new] = stack_of_list_.try_emplace(list, kNoStack);
    if (!is_new) {
      return known->second;
    }
    const auto [same, differs] = stack_of_frames_.try_emplace(
        tree_.Elements(*list), static_cast<uint32_t>(file_.stacks.size()));
    if (differs) {
      std::vector<Frame> frames;
      for (const PickleValue* const frame : fields_.Dicts(list)) {
        frames.push_back({fields_.Text(*frame, "name"), fields_.Text(*frame, "filename"),
                          fields_.Int(*frame, "line", 0)});
      }
      file_.stacks.push_back(StackOf(frames));
    }
    known->second = same->second;
    return known->second;
  }

  void ReadSegment(const PickleValue& dict) {
    DeviceSnapshot& device = DeviceOf(fields_.Int(dict, "device", 0));
    SegmentState segment;
    segment.address = static_cast<uint64_t>(fields_.Int(dict, "address"));
    segment.bytes = Bytes(dict, "total_size");
    segment.stream = fields_.Int(dict, "stream", 0);
    segment.pool =
        fields_.Text(dict, "segment_type") == "small" ? PoolKind::kSmall : PoolKind::kLarge;
    segment.is_expandable = fields_.Flag(dict, "is_expandable");
    device.private_segments += IsPrivate(dict) ? 1 : 0;
    uint64_t address = segment.address;
    for (const PickleValue* const entry : fields_.Dicts(tree_.Find(dict, "blocks"))) {
      BlockInfo block;
      block.address = address;  // those of older torches do not say it
      block.bytes = Bytes(*entry, "size");
      block.requested_bytes = Bytes(*entry, "requested_size", block.bytes);
      block.state = Named(kBlockStates, fields_.Text(*entry, "state"));
      if (block.state != BlockState::kFree) {
        device.stack_of[address] = Stack(*entry);
      }
      address += static_cast<uint64_t>(block.bytes);
      segment.blocks.push_back(block);
    }
    if (address != segment.address + static_cast<uint64_t>(segment.bytes)) {
      fields_.Fail();
    }
    device.segments.push_back(std::move(segment));
  }

  [[nodiscard]] bool IsPrivate(const PickleValue& segment) const {
    const PickleValue* const pool = tree_.Find(segment, "segment_pool_id");
    return pool != nullptr && std::ranges::any_of(tree_.Elements(*pool), [&](uint32_t part) {
             return tree_.at(part).number != 0;
           });
  }

  void ReadEvent(const PickleValue& dict, DeviceSnapshot* device) {
    const std::string action = fields_.Text(dict, "action");
    if (std::ranges::find(kActions, action, [](const auto& one) { return one.first; }) ==
        std::end(kActions)) {
      return;  // newer torches add marks of users
    }
    HistoryEvent entry;
    entry.event.action = Named(kActions, action);
    const bool is_oom = entry.event.action == AllocatorAction::kOutOfMemory;
    entry.event.address =
        static_cast<uint64_t>(fields_.Int(dict, is_oom ? "device_free" : "addr", 0));
    entry.event.bytes = Bytes(dict, "size", 0);
    entry.event.stream = fields_.Int(dict, "stream", 0);
    entry.stack = Stack(dict);
    device->history.push_back(entry);
  }

  void ReadSettings(const PickleValue& settings) {
    file_.expandable = fields_.Flag(settings, "expandable_segments");
    for (const char* const key : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
      const PickleValue* const text = tree_.Find(settings, key);
      if (text != nullptr && text->kind == Kind::kString && file_.settings.empty()) {
        file_.settings = tree_.Text(*text);
      }
    }
  }

  const PickleTree& tree_;
  PickleFields fields_;
  SnapshotFile file_;
  std::map<int64_t, DeviceSnapshot> devices_;
  std::unordered_map<const PickleValue*, uint32_t> stack_of_list_;
  std::map<std::vector<uint32_t>, uint32_t> stack_of_frames_;
};

}  // namespace

bool IsPickle(std::string_view beginning) {
  return beginning.size() >= 2 && beginning[0] == '\x80' && beginning[1] >= 2 && beginning[1] <= 5;
}

Result<SnapshotFile> ReadSnapshot(std::string_view bytes, const std::string& name) {
  PRISM_ASSIGN_OR_RETURN(const PickleTree tree, replayer::ReadPickle(bytes, name));
  SnapshotReader reader(tree, bytes.size());
  if (!reader.Read()) {
    return BadFile(fmt::format(
        "{}: not a memory snapshot: write one with torch.cuda.memory._dump_snapshot", name));
  }
  return reader.TakeFile();
}

}  // namespace prism::launch
