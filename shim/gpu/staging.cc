#include "shim/gpu/staging.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "graph/base/divide.h"
#include "shim/gpu/device_reduction.h"
#include "shim/gpu/forward.h"
#include "shim/gpu/relaxed_capture.h"

namespace prism::shim {
namespace {

// Unused pinned memory, by size; the driver's own calls for it would wait for the device.
struct Pool {
  std::mutex mutex;
  std::multimap<size_t, void*> free;
};

Pool& GetPool() {
  alignas(Pool) static std::byte storage[sizeof(Pool)];
  static Pool* const pool = new (storage) Pool();
  return *pool;
}

void* TakePinned(size_t bytes) {
  Pool& pool = GetPool();
  {
    const std::lock_guard<std::mutex> lock(pool.mutex);
    if (const auto found = pool.free.find(bytes); found != pool.free.end()) {
      void* const memory = found->second;
      pool.free.erase(found);
      return memory;
    }
  }
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  auto* const allocate =
      reinterpret_cast<cudaError_t (*)(void**, size_t, unsigned int)>(FindReal("cudaHostAlloc"));
  return allocate(&memory, bytes, cudaHostAllocDefault) == cudaSuccess ? memory : nullptr;
}

void GivePinned(void* memory, size_t bytes) {
  Pool& pool = GetPool();
  const std::lock_guard<std::mutex> lock(pool.mutex);
  pool.free.emplace(bytes, memory);
}

// What absent members would send may be left as it is.
bool MayLeaveBytes(ExchangeOperation operation) {
  return operation == ExchangeOperation::kBroadcast || operation == ExchangeOperation::kAllGather ||
         operation == ExchangeOperation::kScatter;
}

}  // namespace

std::unique_ptr<Staging> Staging::Create(std::span<const NcclOp> ops) {
  std::unique_ptr<Staging> staging(new Staging());
  for (const NcclOp& op : ops) {
    const size_t block = op.count * ElementBytes(op.element);
    const Blocks blocks = BlocksOf(op);
    const size_t written = block * static_cast<size_t>(blocks.written);
    staging->AddRead(op.send, block * static_cast<size_t>(blocks.read));
    if (MayLeaveBytes(op.operation)) {
      staging->AddRead(op.recv, written);
    }
    staging->AddWritten(op.recv, written);
    const auto* const received = static_cast<const std::byte*>(op.recv);
    staging->in_place_ =
        staging->in_place_ || (op.send >= received && op.send < received + written);
  }
  staging->Join();
  const WithinReal within;
  staging->host_ = static_cast<std::byte*>(TakePinned(staging->host_bytes_));
  return staging->host_ == nullptr ? nullptr : std::move(staging);
}

Staging::~Staging() {
  if (host_ != nullptr) {
    GivePinned(host_, host_bytes_);
  }
}

void Staging::AddRead(const void* device, size_t bytes) {
  if (device != nullptr && bytes != 0) {
    ranges_.push_back({static_cast<std::byte*>(const_cast<void*>(device)), bytes, true, false});
  }
}

void Staging::AddWritten(void* device, size_t bytes) {
  if (device != nullptr && bytes != 0) {
    ranges_.push_back({static_cast<std::byte*>(device), bytes, false, true});
  }
}

// Buffers may overlap (calls in place), and then share one copy.
void Staging::Join() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& left, const Range& right) { return left.device < right.device; });
  std::vector<Range> joined;
  for (const Range& range : ranges_) {
    if (!joined.empty() && range.device < joined.back().device + joined.back().bytes) {
      Range& last = joined.back();
      last.bytes =
          std::max(last.bytes, static_cast<size_t>(range.device - last.device) + range.bytes);
      // Bytes of either that only the other one touches keep their values.
      last.read = true;
      last.written = last.written || range.written;
    } else {
      joined.push_back(range);
    }
  }
  constexpr size_t kAlignment = 256;
  size_t offset = 0;
  for (Range& range : joined) {
    range.offset = offset;
    offset += RoundUp(range.bytes, kAlignment);
  }
  ranges_ = std::move(joined);
  host_bytes_ = std::bit_ceil(std::max(offset, kAlignment));
}

std::byte* Staging::OnHost(const void* device) {
  const auto* const at = static_cast<const std::byte*>(device);
  for (const Range& range : ranges_) {
    if (at >= range.device && at < range.device + range.bytes) {
      return host_ + range.offset + (at - range.device);
    }
  }
  return static_cast<std::byte*>(const_cast<void*>(device));  // of the exchange itself
}

bool Staging::Copy(cudaStream_t stream, bool in) {
  using CopyAsync = cudaError_t(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
  auto* const copy = reinterpret_cast<CopyAsync*>(FindReal("cudaMemcpyAsync"));
  const WithinReal within;
  for (const Range& range : ranges_) {
    std::byte* const host = host_ + range.offset;
    if (in ? !range.read : !range.written) {
      continue;
    }
    const cudaError_t error =
        in ? copy(host, range.device, range.bytes, cudaMemcpyDeviceToHost, stream)
           : copy(range.device, host, range.bytes, cudaMemcpyHostToDevice, stream);
    if (error != cudaSuccess) {
      return false;
    }
  }
  return true;
}

bool Staging::CopyIn(cudaStream_t stream) {
  return Copy(stream, true);
}

bool Staging::CopyOut(cudaStream_t stream) {
  return Copy(stream, false);
}

bool Staging::Read(const void* source, size_t bytes, void* out) {
  std::memcpy(out, OnHost(source), bytes);
  return true;
}

void Staging::Write(void* target, size_t bytes, const void* data) {
  std::memcpy(OnHost(target), data, bytes);
}

void Staging::Invalidate(void* target, size_t bytes) {
  std::memset(OnHost(target), 0, bytes);
}

void Staging::Reduce(const ReductionCall& call, void* target, void* scratch) {
  const bool is_large = call.count * ElementBytes(call.element) >= kDeviceReductionBytesMin;
  if (is_large &&
      ReduceOnDevice(call.input, call.element, call.reduction, call.count, OnHost(target))) {
    return;
  }
  if (is_large) {
    Count("reductions_on_host");
  }
  Memory::Reduce(call, target, scratch);
}

bool Staging::AnyValid(const void* source, size_t bytes) {
  return source != nullptr && bytes != 0;
}

}  // namespace prism::shim
