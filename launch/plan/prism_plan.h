// What a training plan costs in time, memory and money, for optimisers outside Prism: a C
// interface. launch/plan/plan_library.h wraps it for C++, launch/python/prism_emulator/plans.py
// for Python; plans and results stay in the caller's memory throughout.
//
// Numbers are those of `prism search`: time by replay of the whole pipeline, memory by the
// simulated allocator on the worst stage. The library is libprism_plan.so.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What is trained, and where. NULL and 0 mean the default of `prism search`, whose bounds apply:
// 2^20 sequences, 2^24 tokens per sequence, tokens >= 0.
typedef struct prism_plan_problem {
  const char* model;      // preset or file
  const char* cluster;    // likewise
  const char* framework;  // "megatron-core"
  const char* precision;  // "bf16"; the framework's if NULL
  int64_t global_batch_size;
  int64_t seq_len;
  double tokens;  // to train on
} prism_plan_problem;

typedef struct prism_plan_choice {
  int32_t tp;
  int32_t cp;
  int32_t pp;
  int32_t dp;
  int32_t ep;
  int32_t vpp;
  int32_t micro_batch_size;
  int32_t recompute;          // 0 none, 1 selective, 2 full
  int32_t zero;               // stage, 0 to 3
  int32_t sequence_parallel;  // 0 off, 1 on
  int32_t offload;            // to host memory: 0 none, 1 optimizer, 2 activations, 3 all
} prism_plan_choice;

enum {
  PRISM_PLAN_OK = 0,
  PRISM_PLAN_TOO_LARGE = 1,    // evaluated, but does not fit into a GPU, or into its host memory,
                               // which a cluster without [host_memory] does not have
  PRISM_PLAN_IMPOSSIBLE = 2,   // no framework could start it: sizes do not divide, or an option has
                               // no effect (ZeRO without replicas)
  PRISM_PLAN_NOT_MODELLED = 3  // its memory or schedule is not described
};

// If a plan is neither OK nor TOO_LARGE, everything but status is 0. Money and energy are NaN if
// the cluster states no price or power.
typedef struct prism_plan_result {
  double iteration_s;
  double iteration_low_s;
  double iteration_high_s;
  double days;
  double gpu_hours;
  double price_usd;
  double energy_kwh;
  double mfu;
  double hfu;
  int64_t allocated_bytes;  // of the worst rank: peak of its caching allocator
  int64_t device_bytes;     // with context and NCCL's buffers
  int64_t free_bytes;       // what is free on the GPU; below 0: what is missing
  int64_t status;           // PRISM_PLAN_...
  int64_t host_bytes;       // host memory of the rank that needs most of it
} prism_plan_result;

typedef struct prism_plan_evaluator prism_plan_evaluator;

// Returns NULL if the problem cannot be read or is out of bounds; then `error`, of `error_size`
// bytes, says why (truncated to fit). The caller owns the evaluator.
prism_plan_evaluator* prism_plan_create(const prism_plan_problem* problem,
                                        char* error,
                                        size_t error_size);
void prism_plan_destroy(prism_plan_evaluator* evaluator);

// Fills results[i] from plans[i] for all i below `count`, on `threads` threads (below 1: on one).
// May be called from several threads at once. Returns how many plans fit.
int64_t prism_plan_evaluate(const prism_plan_evaluator* evaluator,
                            const prism_plan_choice* plans,
                            int64_t count,
                            int32_t threads,
                            prism_plan_result* results);

#ifdef __cplusplus
}
#endif
