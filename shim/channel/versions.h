// The library versions that are reported to a program. The launcher writes them into run.json.
#pragma once

namespace prism::channel {

// CUDA 13.0, the version whose runtime the wheel of torch 2.11 brings.
inline constexpr int kCudaVersion = 13000;

// NCCL 2.28.9.
inline constexpr int kNcclVersion = 22809;

}  // namespace prism::channel
