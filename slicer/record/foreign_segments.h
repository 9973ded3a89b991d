// Device memory that the framework's allocator did not request (cudaMalloc by another library or by
// the program itself): segments that never contained a block of the allocator.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace prism::slicer {

class ForeignSegments {
 public:
  void TakeSegment(uint64_t address, int64_t bytes);

  // Frees one or several segments, or parts that were mapped one by one.
  void GiveSegments(uint64_t address, int64_t bytes);

  // The allocator returned a block there.
  void SeeBlock(uint64_t address, int64_t bytes);

  // The largest sum of foreign segments at any time.
  [[nodiscard]] int64_t Peak() const;

 private:
  struct Segment {
    int64_t bytes = 0;
    bool is_foreign = true;
  };

  struct Change {
    uint32_t segment = 0;
    bool taken = false;
  };

  using ByAddress = std::map<uint64_t, uint32_t>;  // → index into segments_

  std::vector<Segment> segments_;
  std::vector<Change> changes_;
  ByAddress live_;
  ByAddress without_block_;  // those of live_
};

}  // namespace prism::slicer
