// Forward and backward passes of nanotron's Llama on one rank, allocation by allocation in the
// order of its code (nanotron/models/llama.py, parallel/tensor_parallel/functional.py of December
// 2024, with flash-attn 2 and the autograd formulas of PyTorch 2.1).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "graph/job/job.h"
#include "replayer/memory/memory_account.h"

namespace prism::replayer {

class NanotronPasses {
 public:
  // The part of the model that a stage has.
  struct Part {
    int64_t layers = 0;
    bool is_first = false;
    bool is_last = false;
  };

  NanotronPasses(const graph::JobSpec& job, const Part& part, MemoryAccount* account);

  // The number of collectives by which the host is ahead of its device from now on.
  void set_lead(int64_t collectives) { lead_ = collectives; }

  void Forward();
  void SendOutput();  // the output of the latest forward pass, to the next stage

  // For the oldest micro-batch; at its end the 16-bit gradients are accumulated and freed.
  void Backward();

 private:
  using Block = MemoryAccount::Block;

  // Bytes of tensors on this rank.
  struct Sizes {
    int64_t hidden;     // hidden states, split by sequence
    int64_t whole;      // of the whole sequence
    int64_t queries;    // split by heads
    int64_t keys;       // or values
    int64_t ffn;        // split by width
    int64_t softmax;    // float32 log-sum-exp of each row of scores
    int64_t logits;     // 16 bit
    int64_t token_ids;  // 64 bit
  };

  // Bytes of 16-bit gradients.
  struct Gradients {
    int64_t norm;
    int64_t qkv;
    int64_t projection;
    int64_t gate_up;
    int64_t down;
    int64_t words;
  };

  // What a layer keeps for its backward pass.
  struct Layer {
    Block input, norm1, qkv, key_values, attention, softmax;
    Block middle, norm2, gate_up, silu, product;
  };

  struct MicroBatch {
    Block token_ids, embeddings, norm, softmax;
    std::vector<Layer> layers;
    Block output;
    bool has_output = false;
  };

  Block Save(int64_t bytes) { return account_->Allocate(bytes, MemoryUse::kActivations); }

  Block Take(int64_t bytes) { return account_->Allocate(bytes, MemoryUse::kTemporaries); }

  void TakeGradient(int64_t bytes) {
    gradients_.push_back(account_->Allocate(bytes, MemoryUse::kGradients));
  }

  void Give(const Block& block) { account_->Free(block); }

  // Allocates a block and frees it at once.
  void Pass(int64_t bytes) { Give(Take(bytes)); }

  Block ReplaceBy(int64_t bytes, const Block& old);
  void GatherInto(bool* has_buffer);
  Block Scatter(const Block& whole);
  Block ForwardAttention(Layer* layer);
  Block ForwardMlp(Layer* layer);
  void ForwardHead(const Block& hidden, MicroBatch* micro_batch);
  Block BackwardHead(const MicroBatch& micro_batch);
  Block BackwardMlp(const Layer& layer, const Block& gradient);
  Block BackwardAttention(const Layer& layer, const Block& gradient);
  void BackwardEmbedding(const MicroBatch& micro_batch, const Block& gradient);
  Block BackwardColumn(int64_t weight_bytes);

  Part part_;
  Sizes sizes_;
  Gradients weights_;
  bool is_split_;        // across tensor-parallel ranks
  bool copies_outputs_;  // of attention, whose transposed form is not contiguous
  bool ties_words_;
  MemoryAccount* account_;
  int64_t lead_ = 0;
  bool has_forward_buffer_ = false;
  bool has_backward_buffer_ = false;
  std::deque<MicroBatch> in_flight_;
  std::vector<Block> gradients_;  // of the current backward pass
};

}  // namespace prism::replayer
