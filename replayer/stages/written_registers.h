// Which registers of a stage its phrases ever write: no others change during an iteration.
#pragma once

#include <cstdint>
#include <vector>

#include "replayer/stages/phrase_compiler.h"

namespace prism::replayer {

class WrittenRegisters {
 public:
  // `compiler` outlives this.
  explicit WrittenRegisters(const PhraseCompiler& compiler);

  // For everything compiled so far, in the order in which they were first written; each result
  // begins with the previous one.
  const std::vector<uint16_t>& Find();

  [[nodiscard]] const PhraseCompiler& compiler() const { return *compiler_; }

 private:
  void Add(uint32_t reg);
  void AddOp(const PhraseOp& op);
  void AddPass(const PhraseOp& op);

  const PhraseCompiler* compiler_;
  size_t ops_ = 0;  // looked at
  std::vector<bool> known_;
  std::vector<uint16_t> registers_;
};

}  // namespace prism::replayer
