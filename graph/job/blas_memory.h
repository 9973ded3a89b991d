// Device memory that cuBLAS takes through libtorch's allocator: workspaces that it allocates at the
// first matrix product of a (handle, stream) pair and keeps for the process. Sizes are those of the
// blocks in recorded memory snapshots, by libtorch's rule (getChosenWorkspaceSize,
// aten/src/ATen/cuda/CublasHandlePool.cpp). Header only.
#pragma once

#include <cstdint>

namespace prism::graph {

inline constexpr int64_t kBlasWorkspaceBeforeHopper = 8'519'680;  // 2 x 4096 KiB + 8 x 16 KiB
inline constexpr int64_t kBlasWorkspaceFromHopper = 33'554'432;   // 32 MiB
inline constexpr int64_t kBlasLtWorkspace = 1'048'576;            // of cuBLASLt, 1 MiB

// Workspaces of a training process on one stream: the thread of the forward pass and that of
// autograd have one handle each (recorded memory snapshots show two once a backward pass has run).
inline constexpr int64_t kBlasWorkspaces = 2;

constexpr int64_t BlasWorkspaceBytes(int32_t compute_major) {
  constexpr int32_t kHopper = 9;
  return compute_major < kHopper ? kBlasWorkspaceBeforeHopper : kBlasWorkspaceFromHopper;
}

constexpr bool IsBlasWorkspace(int64_t bytes) {
  return bytes == kBlasWorkspaceBeforeHopper || bytes == kBlasWorkspaceFromHopper ||
         bytes == kBlasLtWorkspace;
}

}  // namespace prism::graph
