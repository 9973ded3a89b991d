// Runs a script on libtorch's caching allocator and prints what it did: for allocator_torch_test.
// Reads the script from standard input; takes the number of streams.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "tests/support/allocator_script.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using allocator::TraceEntry;
using prism::testing::AllocatorStepKind;

void PrintStat(const c10::CachingAllocator::StatArray& stat) {
  for (const auto pool :
       {c10::CachingAllocator::StatType::AGGREGATE, c10::CachingAllocator::StatType::SMALL_POOL,
        c10::CachingAllocator::StatType::LARGE_POOL}) {
    const auto& value = stat[static_cast<size_t>(pool)];
    std::printf("stat %ld %ld %ld %ld\n", value.current, value.peak, value.allocated, value.freed);
  }
}

void PrintStatistics() {
  const auto stats = allocator::getDeviceStats(0);
  for (const auto* stat : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split,
                           &stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                           &stats.inactive_split_bytes, &stats.requested_bytes}) {
    PrintStat(*stat);
  }
  std::printf("stat %ld %ld %ld %ld\n", stats.num_alloc_retries, stats.num_ooms,
              stats.num_device_alloc, stats.num_device_free);
}

void Run(const std::vector<c10::cuda::CUDAStream>& streams) {
  std::vector<c10::DataPtr> allocations;
  for (const auto& step : prism::testing::ReadScript(&std::cin)) {
    const auto& stream = streams[static_cast<size_t>(step.stream)];
    switch (step.kind) {
      case AllocatorStepKind::kAllocate: {
        const c10::cuda::CUDAStreamGuard guard(stream);
        try {
          allocations.push_back(allocator::get()->allocate(static_cast<size_t>(step.value)));
        } catch (const c10::OutOfMemoryError&) {
          allocations.emplace_back();
        }
        break;
      }
      case AllocatorStepKind::kFree:
        allocations[static_cast<size_t>(step.value)].clear();
        break;
      case AllocatorStepKind::kUse:
        allocator::recordStream(allocations[static_cast<size_t>(step.value)], stream);
        break;
      case AllocatorStepKind::kEmptyCache:
        allocator::emptyCache();
        break;
    }
  }
  PrintStatistics();
  std::fflush(stdout);
  std::_Exit(0);  // what is still allocated stays out of the trace
}

}  // namespace

int main(int count, char** arguments) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  std::vector<c10::cuda::CUDAStream> streams = {c10::cuda::getDefaultCUDAStream()};
  const int wanted = count > 1 ? std::atoi(arguments[1]) : 1;
  while (static_cast<int>(streams.size()) < wanted) {
    streams.push_back(c10::cuda::getStreamFromPool());
  }
  for (const auto& stream : streams) {
    std::printf("stream %ld\n", reinterpret_cast<intptr_t>(stream.stream()));
  }
  const auto info = allocator::get()->getMemoryInfo(0);
  std::printf("device %zu %zu\n", info.first, info.second);
  allocator::attachAllocatorTraceTracker([](const TraceEntry& entry) {
    std::printf("trace %d %zu %zu %ld\n", static_cast<int>(entry.action_),
                static_cast<size_t>(entry.addr_), entry.size_,
                reinterpret_cast<intptr_t>(entry.stream_));
  });
  Run(streams);
  return 1;
}
