// The format is NVIDIA's and not documented; sizes and offsets are those that nvcc 11 to 13 and
// their cuobjdump agree on.
#include "shim/virtual_device/fat_binary.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace prism::shim {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kBinaryMagic = 0xba55ed50;

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const std::byte* binary;
};

// Before all pieces.
struct BinaryHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of all pieces
};

// Before the code of each.
struct PieceHeader {
  uint16_t kind;  // PTX or machine code
  uint16_t version;
  uint32_t header_bytes;
  uint64_t bytes;  // of its code
  uint32_t other[3];
  uint32_t architecture;
};

template <typename Header>
Header Read(const std::byte* at) {
  Header header;
  std::memcpy(&header, at, sizeof(header));
  return header;
}

}  // namespace

int ArchitectureOf(const void* wrapper, int device) {
  if (wrapper == nullptr) {
    return device;
  }
  const auto outer = Read<Wrapper>(static_cast<const std::byte*>(wrapper));
  if (outer.magic != kWrapperMagic || outer.binary == nullptr) {
    return device;
  }
  const auto binary = Read<BinaryHeader>(outer.binary);
  if (binary.magic != kBinaryMagic) {
    return device;
  }
  int latest = 0;  // not later than the device
  int earliest = 0;
  const std::byte* const first = outer.binary + binary.header_bytes;
  for (uint64_t offset = 0; offset + sizeof(PieceHeader) <= binary.bytes;) {
    const auto piece = Read<PieceHeader>(first + offset);
    if (piece.header_bytes < sizeof(PieceHeader) ||
        piece.bytes > binary.bytes - offset - sizeof(PieceHeader)) {
      break;
    }
    const auto architecture = static_cast<int>(piece.architecture);
    earliest = earliest == 0 || architecture < earliest ? architecture : earliest;
    latest = architecture <= device && architecture > latest ? architecture : latest;
    offset += piece.header_bytes + piece.bytes;
  }
  if (earliest == 0) {
    return device;
  }
  return latest > 0 ? latest : earliest;
}

}  // namespace prism::shim
