#include "shim/standalone_config.h"

#include <stdio.h>

namespace prism::shim {

// NVIDIA H100 datasheet and CUDA C++ programming guide, table of compute capabilities (9.0);
// memory_bytes as nvidia-smi shows it for such a device, 81,559 MiB; the context is assumed (issues
// of PyTorch report 290 to 430 MB with lazily loaded kernels: 107667, 109888).
channel::Config StandaloneConfig() {
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = channel::Mode::kStandalone;
  config.world_size = 1;
  snprintf(config.device.name, sizeof(config.device.name), "NVIDIA H100 80GB HBM3");
  config.device.compute_major = 9;
  config.device.compute_minor = 0;
  config.device.sm_count = 132;
  config.device.device_count = 8;
  config.device.memory_bytes = int64_t{81'559} << 20;
  config.device.context_bytes = int64_t{400} << 20;
  config.device.l2_bytes = int64_t{50} << 20;
  config.device.shared_memory_per_sm = 228 << 10;
  config.device.shared_memory_per_block_optin = 227 << 10;
  config.nccl = {.collective_channels = 24,
                 .p2p_channels = 32,
                 .p2p_channels_per_peer = 32,
                 .nvls_channels = 16,
                 .granularity_bytes = 2 << 20,
                 .local_bytes_per_s = 450'000'000'000,
                 .network_bytes_per_s = 50'000'000'000};
  config.sandbox_rank_count = 1;
  return config;
}

}  // namespace prism::shim
