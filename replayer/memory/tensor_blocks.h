// Blocks of several tensors that are allocated, and freed, one after the other.
#pragma once

#include <vector>

#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/memory_account.h"

namespace prism::replayer {

using MemoryBlocks = std::vector<MemoryAccount::Block>;

inline void AllocateAll(const std::vector<Tensor>& tensors,
                        MemoryUse use,
                        MemoryAccount* account,
                        MemoryBlocks* blocks) {
  blocks->reserve(blocks->size() + tensors.size());
  for (const Tensor& tensor : tensors) {
    blocks->push_back(account->Allocate(tensor.bytes, use));
  }
}

inline void FreeAll(MemoryBlocks* blocks, MemoryAccount* account) {
  for (const MemoryAccount::Block& block : *blocks) {
    account->Free(block);
  }
  blocks->clear();
}

}  // namespace prism::replayer
