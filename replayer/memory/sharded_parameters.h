// Memory of FSDP-sharded parameters beyond the shards that a rank keeps (model_states.h): copies
// gathered for the passes of a unit, gradients until they are scattered, and the flat buffers that
// both are transferred in.
//
// Follows fully_shard of PyTorch 2.11 (torch/distributed/fsdp/_fully_shard) as torchtitan applies
// it, and the built-in workload, which prefetches in both passes, frees a gathered buffer once it
// is copied, and holds the float32 gradients of a unit from the start of its backward pass
// (launch/trainer/sharded_parameters.h). Each layer is its own group, and so are embedding and
// head since torchtitan's pull request 1094 of July 2025; before that they belong to the root,
// which stays gathered until its gradients are complete. What is gathered arrives in one flat
// buffer of a separate stream, which nothing else can use, and is copied out of it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "replayer/memory/memory_account.h"

namespace prism::replayer {

// Elements of a model chunk's parameters on one rank, by the unit's place in the chunk.
struct ShardedChunk {
  struct Unit {
    int64_t elements = 0;
    bool of_root = false;
    bool stays = false;  // stays gathered from its forward to its backward pass
    int64_t shard = 0;   // of them, on this rank between passes
  };
  std::vector<Unit> units;
};

// Whether parameters are gathered for the passes from shards on several ranks.
bool IsSharded(const graph::JobSpec& job, const graph::TrainingStyle& style);

// torch's pipeline stages accumulate unsharded gradients and scatter only after the last
// micro-batch.
bool AccumulatesGradients(const graph::JobSpec& job);

class ShardedParameters {
 public:
  // Scattered gradients are allocated on the scatters' own stream and live until the next
  // iteration; if modules are not PyTorch's they are among the states.
  //
  // `accumulates`: unsharded gradients of several micro-batches are summed before they are
  // scattered.
  ShardedParameters(const graph::JobSpec& job,
                    const graph::TrainingStyle& style,
                    bool accumulates,
                    const std::vector<ShardedChunk>& chunks,
                    MemoryAccount* account);

  // Around the passes of a unit; a unit's gradients are allocated in its backward pass, before its
  // activations are freed.
  void BeginForward(int64_t chunk, int64_t place);
  void EndForward(int64_t chunk, int64_t place);
  void BeginBackward(int64_t chunk, int64_t place);
  void MakeGradients(int64_t chunk, int64_t place);
  void EndBackward(int64_t chunk, int64_t place);

  // Bytes of the gradients that MakeGradients allocates if it also frees them, null if any stay.
  [[nodiscard]] std::optional<int64_t> PassingGradientBytes(int64_t chunk, int64_t place) const;

  // Before the passes of an iteration: frees the gradients of the previous one (zero_grad).
  void BeginIteration();

  // The built-in workload.
  [[nodiscard]] bool by_unit() const { return by_unit_; }

  // After a chunk's whole forward or backward pass; `last`: of its last micro-batch.
  void EndForward(int64_t chunk);
  void EndBackward(int64_t chunk, bool last);

 private:
  struct Group {
    int64_t elements = 0;
    int64_t shard = 0;
    std::optional<MemoryAccount::Block> flat;       // on its way
    std::optional<MemoryAccount::Block> copies;     // gathered
    std::optional<MemoryAccount::Block> scattered;  // the gradients' shard
    std::vector<MemoryAccount::Block> gradients;
  };

  // Groups of a chunk: the root, then one per place. Each chunk has its own streams.
  struct Chunk {
    ShardedChunk shape;
    std::vector<Group> groups;
    std::set<int64_t> summed;  // places with gradients of an earlier micro-batch waiting
    std::optional<MemoryAccount::Block> last_flat;     // freed after the next copy
    std::optional<MemoryAccount::Block> last_scatter;  // freed before the next
    int64_t stream = 0;
  };

  Group& GroupOf(int64_t chunk, int64_t place);
  void Fetch(Chunk* chunk, Group* group);
  void CopyOut(Group* group);
  void Gather(Chunk* chunk, Group* group);
  void Scatter(Chunk* chunk, Group* group);
  void Release(std::optional<MemoryAccount::Block>* block);

  int64_t value_bytes_;
  int64_t gathered_bytes_;
  int64_t reduced_bytes_;
  bool by_unit_;
  bool frozen_;  // only adapters, which are not counted here, have gradients
  bool reshards_;
  bool accumulates_;
  bool keeps_shards_;  // of gradients, as states
  bool casts_shards_;  // casts 32-bit parameter shards to the gathered type
  std::vector<Chunk> chunks_;
  MemoryAccount* account_;
};

}  // namespace prism::replayer
