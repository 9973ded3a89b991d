// The memory of the virtual device without a program: addresses, capacity, which bytes are valid.
// Uses the profile of a process without a worker: an H100 of 81,559 MiB, 400 MiB of context,
// descending addresses.
#include "shim/virtual_device/memory.h"

#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "shim/virtual_device/address_space.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/written_bytes.h"

namespace prism::shim {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(AddressSpace, ascending_takes_the_lowest_fit_and_joins_what_comes_back) {
  AddressSpace space(64 * kMiB, kDeviceGranularity, true);
  ASSERT_TRUE(space.valid());
  const uintptr_t first = space.Take(8 * kMiB);
  const uintptr_t second = space.Take(8 * kMiB);
  const uintptr_t third = space.Take(48 * kMiB);
  EXPECT_EQ(first, space.base());
  EXPECT_EQ(second, first + 8 * kMiB);
  EXPECT_EQ(third, second + 8 * kMiB);
  EXPECT_EQ(space.Take(2 * kMiB), 0U);
  space.Give(first, 8 * kMiB);
  space.Give(third, 48 * kMiB);
  EXPECT_EQ(space.Take(16 * kMiB), third);
  space.Give(second, 8 * kMiB);
  EXPECT_EQ(space.Take(16 * kMiB), first);
}

TEST(AddressSpace, descending_takes_the_highest_fit) {
  AddressSpace space(64 * kMiB, kDeviceGranularity, false);
  const uintptr_t first = space.Take(8 * kMiB);
  const uintptr_t second = space.Take(4 * kMiB);
  EXPECT_EQ(first, space.base() + 56 * kMiB);
  EXPECT_EQ(second, first - 4 * kMiB);
  space.Give(first, 8 * kMiB);
  EXPECT_EQ(space.Take(8 * kMiB), first);
  EXPECT_EQ(space.Take(52 * kMiB), space.base());
}

TEST(WrittenBytes, agrees_with_a_set_of_single_bytes_on_random_histories) {
  rc::check([](const std::vector<std::tuple<bool, uint8_t, uint8_t>>& history) {
    WrittenBytes written;
    std::set<uintptr_t> bytes;
    for (const auto& [is_add, start, length] : history) {
      if (is_add) {
        written.Add(start, length);
      } else {
        written.Remove(start, length);
      }
      for (uintptr_t at = start; at < uintptr_t{start} + length; ++at) {
        if (is_add) {
          bytes.insert(at);
        } else {
          bytes.erase(at);
        }
      }
    }
    for (uintptr_t at = 0; at < 512; ++at) {
      RC_ASSERT(written.Count(at, 1) == bytes.count(at));
    }
    RC_ASSERT(written.Count(0, 512) == bytes.size());
  });
}

TEST(DeviceMemory, the_context_and_roundings_are_accounted) {
  const DeviceUsage before = QueryDeviceUsage();
  EXPECT_EQ(before.total_bytes, int64_t{81'559} << 20);
  EXPECT_EQ(before.total_bytes - before.free_bytes, int64_t{400} << 20);
  void* const pointer = DeviceAllocate(1);
  EXPECT_EQ(before.free_bytes - QueryDeviceUsage().free_bytes, int64_t{2} << 20);
  EXPECT_TRUE(IsDevicePointer(static_cast<char*>(pointer) + 2 * kMiB - 1));
  EXPECT_TRUE(DeviceFree(pointer));
  EXPECT_FALSE(IsDevicePointer(pointer));
  EXPECT_FALSE(DeviceFree(pointer));
  EXPECT_EQ(before.free_bytes, QueryDeviceUsage().free_bytes);
}

TEST(DeviceMemory, is_full_at_its_capacity_to_the_last_granule) {
  const auto free_bytes = static_cast<size_t>(QueryDeviceUsage().free_bytes);
  const size_t most = free_bytes / kDeviceGranularity * kDeviceGranularity;
  EXPECT_EQ(DeviceAllocate(most + 1), nullptr);
  void* const pointer = DeviceAllocate(most);
  ASSERT_NE(pointer, nullptr);
  EXPECT_EQ(DeviceAllocate(kDeviceGranularity), nullptr);
  EXPECT_FALSE(AccountOutside("test", 0, int64_t{2} << 20));
  EXPECT_TRUE(DeviceFree(pointer));
}

TEST(DeviceMemory, what_was_never_written_reads_zero_and_counts_as_invalid) {
  auto* const device = static_cast<char*>(DeviceAllocate(kMiB));
  std::vector<char> host(4096, 'x');
  CopyBytes(device + 1000, host.data(), 100);
  EXPECT_EQ(ValidBytes(device, kMiB), 100U);
  CopyBytes(host.data(), device, 2000);
  EXPECT_EQ(host[999], 0);
  EXPECT_EQ(host[1000], 'x');
  EXPECT_EQ(host[1099], 'x');
  EXPECT_EQ(host[1100], 0);
  EXPECT_EQ(host[2000], 'x');
  EXPECT_TRUE(DeviceFree(device));
  auto* const again = static_cast<char*>(DeviceAllocate(kMiB));
  ASSERT_EQ(again, device);
  EXPECT_EQ(ReadBytes(host.data(), again + 1000, 100), 0U);
  EXPECT_EQ(host[0], 0);
  EXPECT_TRUE(DeviceFree(again));
}

TEST(DeviceMemory, a_device_copy_takes_validity_along_and_invalidates_what_it_covers) {
  auto* const device = static_cast<char*>(DeviceAllocate(kMiB));
  SetBytes(device, 1, 4096);
  CopyBytes(device + 2048, device + 8192, 1024);
  EXPECT_EQ(ValidBytes(device, 4096), 3072U);
  char byte = 'x';
  EXPECT_EQ(ReadBytes(&byte, device + 2048, 1), 0U);
  EXPECT_EQ(byte, 0);
  // Overlapping: bytes 0..2047 are 1, 2048..3071 invalid, 3072..4095 are 1.
  CopyBytes(device + 512, device, 4096);
  EXPECT_EQ(ValidBytes(device, 8192), 512U + 3072U);
  EXPECT_EQ(ReadBytes(&byte, device + 2559, 1), 1U);
  EXPECT_EQ(byte, 1);
  EXPECT_EQ(ReadBytes(&byte, device + 2560, 1), 0U);
  EXPECT_EQ(byte, 0);
  EXPECT_TRUE(DeviceFree(device));
}

TEST(DeviceMemory, large_memsets_to_zero_are_valid_and_large_copies_only_marked) {
  const size_t large = size_t{64} * kMiB;
  auto* const device = static_cast<char*>(DeviceAllocate(large));
  SetBytes(device, 7, 5000);
  SetBytes(device, 0, large);
  char byte = 'x';
  EXPECT_EQ(ReadBytes(&byte, device + 4999, 1), 1U);
  EXPECT_EQ(byte, 0);
  EXPECT_EQ(ValidBytes(device, large), large);
  const std::vector<char> host(large, 'y');
  CopyBytes(device, host.data(), large);
  EXPECT_EQ(ValidBytes(device, large), 0U);
  EXPECT_EQ(ReadBytes(&byte, device + 100, 1), 0U);
  EXPECT_EQ(byte, 0);
  EXPECT_TRUE(DeviceFree(device));
}

TEST(DeviceMemory, physical_memory_counts_against_the_same_capacity) {
  const int64_t free_bytes = QueryDeviceUsage().free_bytes;
  const uintptr_t address = ReserveAddresses(90 * size_t{1024} * kMiB);
  ASSERT_NE(address, 0U);
  EXPECT_EQ(QueryDeviceUsage().free_bytes, free_bytes);
  ASSERT_TRUE(TakePhysical(20 * kMiB));
  MapRange(address, 20 * kMiB, 0);
  EXPECT_EQ(QueryDeviceUsage().free_bytes, free_bytes - (int64_t{20} << 20));
  void* const pointer = reinterpret_cast<void*>(address);
  EXPECT_TRUE(IsDevicePointer(pointer));
  SetBytes(pointer, 3, 100);
  UnmapRange(address, 20 * kMiB);
  GivePhysical(20 * kMiB);
  EXPECT_FALSE(IsDevicePointer(pointer));
  EXPECT_EQ(ValidBytes(pointer, 100), 0U);
  EXPECT_TRUE(FreeAddresses(address, 90 * size_t{1024} * kMiB));
}

}  // namespace
}  // namespace prism::shim
