#include "shim/virtual_device/fat_binary.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace prism::shim {
namespace {

// As nvcc lays it out: a wrapper that points to pieces, one for each architecture.
class Program {
 public:
  explicit Program(const std::vector<uint32_t>& architectures) : binary_(16) {
    for (const uint32_t architecture : architectures) {
      constexpr uint32_t kHeaderBytes = 64;
      constexpr uint64_t kCodeBytes = 24;
      std::vector<char> piece(kHeaderBytes + kCodeBytes);
      std::memcpy(&piece[4], &kHeaderBytes, 4);
      std::memcpy(&piece[8], &kCodeBytes, 8);
      std::memcpy(&piece[28], &architecture, 4);
      binary_.insert(binary_.end(), piece.begin(), piece.end());
    }
    const uint32_t magic = 0xba55ed50;
    const uint16_t header_bytes = 16;
    const uint64_t bytes = binary_.size() - header_bytes;
    std::memcpy(binary_.data(), &magic, 4);
    std::memcpy(&binary_[6], &header_bytes, 2);
    std::memcpy(&binary_[8], &bytes, 8);
    wrapper_.binary = binary_.data();
  }

  [[nodiscard]] const void* wrapper() const { return &wrapper_; }
  std::vector<char>& binary() { return binary_; }

 private:
  struct {
    uint32_t magic = 0x466243b1;
    uint32_t version = 1;
    const char* binary = nullptr;
    const void* unused = nullptr;
  } wrapper_;
  std::vector<char> binary_;
};

TEST(FatBinary, a_device_runs_the_latest_code_that_is_not_later) {
  const Program program({75, 80, 86, 90, 100, 120});
  EXPECT_EQ(ArchitectureOf(program.wrapper(), 90), 90);
  EXPECT_EQ(ArchitectureOf(program.wrapper(), 89), 86);
  EXPECT_EQ(ArchitectureOf(program.wrapper(), 103), 100);
}

TEST(FatBinary, a_device_older_than_all_code_runs_the_earliest) {
  EXPECT_EQ(ArchitectureOf(Program({80, 75, 90}).wrapper(), 70), 75);
}

TEST(FatBinary, what_cannot_be_read_says_nothing) {
  EXPECT_EQ(ArchitectureOf(nullptr, 89), 89);
  EXPECT_EQ(ArchitectureOf(Program({}).wrapper(), 89), 89);
  Program other({80});
  other.binary()[0] = 0;
  EXPECT_EQ(ArchitectureOf(other.wrapper(), 89), 89);
  Program longer({80, 86});
  longer.binary()[16 + 8 + 7] = 0x7f;  // a piece that would end outside
  EXPECT_EQ(ArchitectureOf(longer.wrapper(), 89), 89);
}

}  // namespace
}  // namespace prism::shim
