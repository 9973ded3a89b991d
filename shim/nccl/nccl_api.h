// The real nccl.h (2.28), with its functions visible: those that the shim defines are exported, and
// the compiler checks their signatures.
#pragma once

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0) &&
                  NCCL_VERSION_CODE < NCCL_VERSION(2, 29, 0),
              "the stand-in was written for NCCL 2.28");
