// Processes number strings and signatures in the order in which they meet them, so equal kernels of
// two fragments have different ids. They are joined by a key that spells a signature out with its
// names, not by the ids: then a kernel of many roles is one entry, and has one duration. Fragments
// come from other processes, so every id is checked against the fragment's own tables first.
#include "slicer/stitch/table_merger.h"

#include <fmt/format.h>

#include "graph/base/intern.h"
#include "graph/describe.h"

namespace prism::slicer {

using graph::Fragment;
using graph::KernelSignature;
using graph::OpKind;
using graph::Program;

TableMerger::TableMerger() {
  InternString("");
}

uint32_t TableMerger::InternString(const std::string& text) {
  return InternValue(strings_, string_ids_, text);
}

uint32_t TableMerger::InternSignature(const KernelSignature& signature,
                                      const std::vector<std::string>& strings) {
  const auto [found, inserted] = signature_ids_.try_emplace(
      graph::SignatureKey(signature, strings), static_cast<uint32_t>(signatures_.size()));
  if (inserted) {
    KernelSignature renamed = signature;
    renamed.name = StringId(InternString(strings[signature.name.value()]));
    renamed.framework_op = StringId(InternString(strings[signature.framework_op.value()]));
    signatures_.push_back(std::move(renamed));
  }
  return found->second;
}

Result<Program> TableMerger::Merge(const Fragment& fragment) {
  std::vector<uint32_t> signature_of;
  for (const KernelSignature& signature : fragment.signatures) {
    if (signature.name.value() >= fragment.strings.size() ||
        signature.framework_op.value() >= fragment.strings.size()) {
      return RunFailed(fmt::format("the fragment of rank {} is damaged: signature {} has no name",
                                   fragment.rank.value(), signature_of.size()));
    }
    signature_of.push_back(InternSignature(signature, fragment.strings));
  }
  Program program = fragment.program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    uint32_t& index = program.signature[op];
    const bool is_kernel = program.kind[op] == OpKind::kKernel;
    if (!is_kernel && program.kind[op] != OpKind::kMarker) {
      continue;
    }
    if (index >= (is_kernel ? signature_of.size() : fragment.strings.size())) {
      return RunFailed(fmt::format("the fragment of rank {} is damaged: op {} has no signature",
                                   fragment.rank.value(), op));
    }
    index = is_kernel ? signature_of[index] : InternString(fragment.strings[index]);
  }
  return program;
}

void TableMerger::MoveInto(graph::Graph& graph) {
  graph.strings = std::move(strings_);
  graph.signatures = std::move(signatures_);
  *this = TableMerger();
}

}  // namespace prism::slicer
