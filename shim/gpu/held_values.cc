// NCCL calls on a real device. In stream order: the buffers are copied to the host, a hold occupies
// the stream while the exchange (collective_values.h) works on the copies, among the sandbox ranks
// and with substitutes for absent ones, and the results are copied back. If this rank is the only
// present member and the buffers are large, values stay on the device: what the others would send
// equals its own, so copies and a factor suffice.
//
// While recording there is no deadline to wait for: the call itself waits for its buffers.
#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "shim/gpu/forward.h"
#include "shim/gpu/hold_device.h"
#include "shim/gpu/holds.h"
#include "shim/gpu/relaxed_capture.h"
#include "shim/gpu/staging.h"
#include "shim/nccl/collective_values.h"
#include "shim/nccl/device_values.h"
#include "shim/virtual_device/stream.h"

namespace prism::shim {

// What a graph keeps of captured calls, for its launches.
struct HeldCapture {
  std::unique_ptr<Staging> staging;  // nullptr: values stay on the device
};

namespace {

// Larger buffers of a rank without present peers stay on the device.
constexpr size_t kStagedBytesMax = size_t{1} << 20;
constexpr size_t kStagedObjectsMax = size_t{64} << 20;

bool IsTimed() {
  return SessionMode() == channel::Mode::kDevice;
}

ncclResult_t Refused(const char* what) {
  return SetLastError(ncclUnhandledCudaError, what);
}

bool IsAlone(const NcclOp& op) {
  return op.communicator->present.size() <= 1;
}

int64_t LinkBytesPerS(const NcclOp& op) {
  const Communicator& communicator = *op.communicator;
  bool local = communicator.size <= SessionConfig().device.device_count;
  for (int32_t member = 0; local && member < communicator.size; ++member) {
    local = communicator.OnSameNode(member);
  }
  const channel::NcclProfile& nccl = SessionConfig().nccl;
  return local ? nccl.local_bytes_per_s : nccl.network_bytes_per_s;
}

HoldLaunch HoldOf(const NcclOp& op, const char* kernel, int32_t channels) {
  const auto bytes = static_cast<int64_t>(op.count * ElementBytes(op.element));
  return {kernel, op.hold_stream - 1, HoldBlocks(bytes, channels), op.stream,
          HoldBytesPerUs(LinkBytesPerS(op), channels)};
}

// Values that do not need the host: those of the only present member of a communicator.
class OnDevice {
 public:
  explicit OnDevice(const NcclOp& op)
      : op_(op), bytes_(op.count * ElementBytes(op.element)), size_(op.communicator->size) {}

  // If false, the exchange is used.
  [[nodiscard]] bool Serves() const {
    if (size_ == 1) {
      return true;
    }
    switch (op_.operation) {
      case ExchangeOperation::kAllReduce:
      case ExchangeOperation::kReduceScatter:
        return IsAlone(op_) && bytes_ > kStagedBytesMax && op_.reduction < ncclNumOps &&
               op_.reduction != ncclProd && (op_.reduction != ncclSum || CanScale());
      case ExchangeOperation::kAllGather:
        return IsAlone(op_) && bytes_ * static_cast<size_t>(size_) > kStagedBytesMax &&
               !MayBeObjects();
      default:
        return false;
    }
  }

  // Whether hold_kernels.cu has a kernel for its elements: floating point of 16 to 64 bits.
  [[nodiscard]] bool CanScale() const {
    return op_.element >= Element::kFloat16 && op_.element <= Element::kBfloat16;
  }

  // Of which absent members may have contributed others (nccl/absent_members.h).
  [[nodiscard]] bool MayBeObjects() const {
    return op_.element == Element::kUint8 && bytes_ <= channel::kMaxValueBytes &&
           bytes_ * static_cast<size_t>(size_) <= kStagedObjectsMax;
  }

  bool Enqueue() {
    switch (op_.operation) {
      case ExchangeOperation::kAllGather:
        return Gather();
      case ExchangeOperation::kReduceScatter:
        return Copy(op_.recv, Slot(op_.send, op_.communicator->rank)) && Sum();
      default:
        return op_.recv == nullptr || (Copy(op_.recv, op_.send) && Sum());
    }
  }

 private:
  [[nodiscard]] std::byte* Slot(const void* slots, int32_t index) const {
    return static_cast<std::byte*>(const_cast<void*>(slots)) + bytes_ * static_cast<size_t>(index);
  }

  bool Copy(void* target, const void* source) {
    const WithinReal within;
    return target == source || target == nullptr || source == nullptr ||
           PRISM_FIND_REAL(cudaMemcpyAsync)(target, source, bytes_, cudaMemcpyDeviceToDevice,
                                            op_.stream) == cudaSuccess;
  }

  // In place, the other slots hold what the program has there (parameters of a sharded optimizer);
  // a separate buffer holds nothing yet.
  bool Gather() {
    const int32_t rank = op_.communicator->rank;
    const bool in_place = op_.send == Slot(op_.recv, rank);
    bool copied = true;
    for (int32_t slot = 0; slot < size_ && copied && !in_place; ++slot) {
      copied = Copy(Slot(op_.recv, slot), op_.send);
    }
    return copied;
  }

  bool Sum() {
    if (op_.reduction != ncclSum || size_ == 1) {
      return true;
    }
    const bool scaled =
        ScaleOnDevice(op_.recv, op_.count, static_cast<uint32_t>(op_.element), size_, op_.stream);
    if (!scaled) {
      Count("values_not_summed");
    }
    return true;
  }

  const NcclOp& op_;
  const size_t bytes_;
  const int32_t size_;
};

bool WaitFor(cudaStream_t stream) {
  const WithinReal within;
  return PRISM_FIND_REAL(cudaStreamSynchronize)(stream) == cudaSuccess;
}

// Stagings that a stream may still read, with an event after the last use.
class InUse {
 public:
  static InUse& Get() {
    static InUse* const in_use = new InUse();
    return *in_use;
  }

  void Add(std::unique_ptr<Staging> staging, cudaStream_t stream) {
    const WithinReal within;
    const RelaxedCapture relaxed;
    cudaEvent_t event = nullptr;
    PRISM_FIND_REAL(cudaEventCreateWithFlags)(&event, cudaEventDisableTiming);
    PRISM_FIND_REAL(cudaEventRecord)(event, stream);
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back({std::move(staging), event});
    std::erase_if(entries_, [](const Entry& entry) {
      const bool passed = PRISM_FIND_REAL(cudaEventQuery)(entry.event) == cudaSuccess;
      if (passed) {
        PRISM_FIND_REAL(cudaEventDestroy)(entry.event);
      }
      return passed;
    });
  }

 private:
  struct Entry {
    std::unique_ptr<Staging> staging;
    cudaEvent_t event;
  };

  std::mutex mutex_;
  std::vector<Entry> entries_;
};

using ExchangeValues = std::function<void(Memory*)>;

// A hold with copies of the ops' buffers around it, whose values `exchange` computes.
ncclResult_t Stand(const HoldLaunch& hold,
                   std::span<const NcclOp> ops,
                   const ExchangeValues& exchange) {
  std::unique_ptr<Staging> staging = Staging::Create(ops);
  Staging* const copies = staging.get();
  if (copies == nullptr || !copies->CopyIn(hold.stream)) {
    return Refused("no copy of the buffers of a collective");
  }
  if (!IsTimed()) {
    if (!WaitFor(hold.stream)) {
      return Refused("no wait for the buffers of a collective");
    }
    exchange(copies);
  } else if (!LaunchHold(hold, [=] { exchange(copies); })) {
    return Refused("no hold for a collective");
  }
  if (!copies->CopyOut(hold.stream)) {
    return Refused("no copy of the results of a collective");
  }
  InUse::Get().Add(std::move(staging), hold.stream);
  return ncclSuccess;
}

// The same on a stream under capture, for launches of its graph.
ncclResult_t CaptureStand(const HoldLaunch& hold, std::span<NcclOp> ops) {
  auto captured = std::make_shared<HeldCapture>();
  for (NcclOp& op : ops) {
    op.captured = captured;
  }
  const WithinReal within;
  captured->staging = Staging::Create(ops);
  Staging* const copies = captured->staging.get();
  return copies != nullptr && copies->CopyIn(hold.stream) && CaptureHold(hold) &&
                 copies->CopyOut(hold.stream)
             ? ncclSuccess
             : Refused("no capture of a collective");
}

// A launch of a graph with captured calls.
void CountStand(const NcclOp& op, const ExchangeValues& exchange) {
  Staging* const copies = op.captured->staging.get();
  if (op.hold_stream == 0) {
    Count("captured_values_left");  // recorded without holds: nothing waits for the exchange
  } else if (copies == nullptr) {
    CountHoldLaunch(op.hold_stream - 1, nullptr);
  } else {
    // The op keeps the copies.
    CountHoldLaunch(op.hold_stream - 1, [op, exchange, copies] { exchange(copies); });
  }
}

int32_t CollectiveChannels() {
  return SessionConfig().nccl.collective_channels;
}

HoldLaunch HoldOf(const NcclOp& op) {
  return HoldOf(op, HoldKernelName(CollectiveKindOf(op.operation)), CollectiveChannels());
}

HoldLaunch HoldOfTransfers(const NcclOp& op) {
  return HoldOf(op, kHoldTransferName, SessionConfig().nccl.p2p_channels);
}

// Ops by stream, in order of first use, as their records are (group.cc).
std::vector<std::vector<NcclOp>> ByStream(std::span<const NcclOp> ops) {
  std::vector<std::vector<NcclOp>> streams;
  for (const NcclOp& op : ops) {
    const auto found = std::find_if(streams.begin(), streams.end(), [&](const auto& others) {
      return others.front().stream == op.stream;
    });
    (found == streams.end() ? streams.emplace_back() : *found).push_back(op);
  }
  return streams;
}

// One hold per stream for all of its sends and receives.
ncclResult_t CaptureTransfers(std::span<NcclOp> ops) {
  std::vector<NcclOp> transfers;
  std::copy_if(ops.begin(), ops.end(), std::back_inserter(transfers), IsTransfer);
  for (std::vector<NcclOp>& group : ByStream(transfers)) {
    if (IsTimed()) {
      const ncclResult_t result = CaptureStand(HoldOfTransfers(group.front()), group);
      if (result != ncclSuccess) {
        return result;
      }
    } else {
      group.front().captured = std::make_shared<HeldCapture>();
    }
    for (NcclOp& op : ops) {
      if (IsTransfer(op) && op.stream == group.front().stream) {
        op.captured = group.front().captured;
      }
    }
  }
  return ncclSuccess;
}

}  // namespace

NcclStream StreamOfCall(cudaStream_t given) {
  const cudaStream_t twin = TwinOf(given);
  const uint32_t hold_stream = StreamIndex(twin) % channel::kHoldStreams;
  return {twin, IsTimed() ? hold_stream + 1 : 0};
}

ncclResult_t MoveCollective(const NcclOp& op, uint32_t sequence) {
  const auto exchange = [op, sequence](Memory* memory) {
    ExchangeCollective(op, sequence, memory);
  };
  const bool is_one_rank = op.communicator->size == 1;
  if (op.captured != nullptr) {
    if (!is_one_rank) {
      CountStand(op, exchange);
    }
    return ncclSuccess;
  }
  OnDevice on_device(op);
  if (!on_device.Serves()) {
    return Stand(HoldOf(op), {&op, 1}, exchange);
  }
  if (IsTimed() && !is_one_rank && !LaunchHold(HoldOf(op), nullptr)) {
    return Refused("no hold for a collective");
  }
  return on_device.Enqueue() ? ncclSuccess : Refused("no copy for a collective");
}

ncclResult_t MoveTransfers(std::span<const NcclOp> ops) {
  for (const std::vector<NcclOp>& group : ByStream(ops)) {
    const auto exchange = [group](Memory* memory) { ExchangeTransfers(group, memory); };
    if (group.front().captured != nullptr) {
      CountStand(group.front(), exchange);
    } else if (const ncclResult_t result = Stand(HoldOfTransfers(group.front()), group, exchange);
               result != ncclSuccess) {
      return result;
    }
  }
  return ncclSuccess;
}

ncclResult_t Capture(std::span<NcclOp> ops) {
  for (NcclOp& op : ops) {
    if (IsTransfer(op)) {
      continue;
    }
    OnDevice on_device(op);
    ncclResult_t result = ncclSuccess;
    if (!on_device.Serves()) {
      result = IsTimed() ? CaptureStand(HoldOf(op), {&op, 1}) : ncclSuccess;
    } else if ((IsTimed() && op.communicator->size > 1 && !CaptureHold(HoldOf(op))) ||
               !on_device.Enqueue()) {
      result = Refused("no capture of a collective");
    }
    if (op.captured == nullptr) {
      op.captured = std::make_shared<HeldCapture>();
    }
    if (result != ncclSuccess) {
      return result;
    }
  }
  return CaptureTransfers(ops);
}

}  // namespace prism::shim
