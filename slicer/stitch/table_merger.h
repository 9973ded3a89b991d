// Joins the string and signature tables of fragments into those of one graph, and renumbers their
// programs. Numbers depend only on the order of the calls.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/fragment.h"
#include "graph/graph.h"

namespace prism::slicer {

class TableMerger {
 public:
  TableMerger();

  uint32_t InternString(const std::string& text);

  // The fragment's program, renumbered for the merged tables. Fails when the program refers to
  // entries that its own tables do not have.
  Result<graph::Program> Merge(const graph::Fragment& fragment);

  // Moves the tables into `graph`; the merger is empty afterwards.
  void MoveInto(graph::Graph& graph);

 private:
  uint32_t InternSignature(const graph::KernelSignature& signature,
                           const std::vector<std::string>& strings);

  std::vector<std::string> strings_;
  std::map<std::string, uint32_t> string_ids_;
  std::vector<graph::KernelSignature> signatures_;
  std::map<std::string, uint32_t> signature_ids_;  // by SignatureKey
};

}  // namespace prism::slicer
