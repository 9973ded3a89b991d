#include "slicer/synthesize/block.h"

#include <utility>

#include "graph/base/content_hash.h"

namespace prism::slicer {
namespace {

uint64_t HashOf(const graph::KernelSignature& signature) {
  const graph::MatmulShape& matmul = signature.matmul;
  ContentHash hash;
  for (const int64_t number :
       {int64_t{signature.name.value()}, int64_t{signature.framework_op.value()}, matmul.m,
        matmul.n, matmul.k, matmul.batch, int64_t{signature.grid[0]}}) {
    hash.Add(number);
  }
  for (const graph::TensorShape& input : signature.inputs) {
    hash.Add(static_cast<int64_t>(input.dtype));
    for (const int64_t dim : input.dims) {
      hash.Add(dim);
    }
  }
  return hash.Digest();
}

}  // namespace

BlockTables::BlockTables() {
  InternString("");
}

void BlockTables::MoveInto(graph::JobProgram* program) {
  program->strings = std::move(strings_);
  program->signatures = std::move(signatures_);
}

void BlockTables::MoveFrom(graph::JobProgram* program) {
  strings_ = std::move(program->strings);
  signatures_ = std::move(program->signatures);
}

uint32_t BlockTables::InternString(std::string_view text) {
  const auto found = string_ids_.find(text);
  if (found != string_ids_.end()) {
    return found->second;
  }
  const auto id = static_cast<uint32_t>(strings_.size());
  string_ids_.emplace(text, id);
  strings_.emplace_back(text);
  return id;
}

uint32_t BlockTables::InternSignature(graph::KernelSignature signature) {
  const uint64_t hash = HashOf(signature);
  const auto [begin, end] = signature_ids_.equal_range(hash);
  for (auto known = begin; known != end; ++known) {
    if (signatures_[known->second] == signature) {
      return known->second;
    }
  }
  const auto id = static_cast<uint32_t>(signatures_.size());
  signature_ids_.emplace(hash, id);
  signatures_.push_back(std::move(signature));
  return id;
}

}  // namespace prism::slicer
