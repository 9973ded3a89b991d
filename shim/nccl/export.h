// Names that nccl.h declares twice: pnccl* is the same function as nccl*, for profilers.
#pragma once

#include "shim/nccl/nccl_api.h"

#define PRISM_PNCCL(call)                     \
  extern "C" decltype(nccl##call) pnccl##call \
      __attribute__((alias("nccl" #call), visibility("default")))
