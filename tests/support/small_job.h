// A transformer of four layers on four ranks, tp 2 and dp 2: enough for every kind of collective
// that occurs without a pipeline, and small enough to read.
#pragma once

#include "graph/job/job.h"

namespace prism::testing {

inline graph::JobSpec SmallJob() {
  graph::JobSpec job;
  job.name = "small";
  job.model.layers = 4;
  job.model.hidden = 1024;
  job.model.heads = 8;
  job.model.kv_heads = 8;
  job.model.ffn = 4096;
  job.model.vocab = 32000;
  job.parallel = {.tp = 2, .dp = 2};
  job.seq_len = 1024;
  job.global_batch_size = 4;
  return job;
}

}  // namespace prism::testing
