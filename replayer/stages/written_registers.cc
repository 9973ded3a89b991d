#include "replayer/stages/written_registers.h"

#include <bit>

namespace prism::replayer {

WrittenRegisters::WrittenRegisters(const PhraseCompiler& compiler)
    : compiler_(&compiler), known_(compiler.register_count()) {
  Add(kHostRegister);
}

const std::vector<uint16_t>& WrittenRegisters::Find() {
  for (; ops_ < compiler_->ops().size(); ++ops_) {
    AddOp(compiler_->ops()[ops_]);
  }
  return registers_;
}

void WrittenRegisters::Add(uint32_t reg) {
  if (!known_[reg]) {
    known_[reg] = true;
    registers_.push_back(static_cast<uint16_t>(reg));
  }
}

void WrittenRegisters::AddOp(const PhraseOp& op) {
  switch (op.kind) {
    case PhraseOpKind::kPass:
      AddPass(op);
      break;
    case PhraseOpKind::kExchange:
    case PhraseOpKind::kMeeting:
      Add(op.reg);
      break;
    case PhraseOpKind::kHostSync:
      for (StreamSet left = op.index; left != 0; left &= left - 1) {
        Add(compiler_->first_debt() + static_cast<uint32_t>(std::countr_zero(left)));
      }
      break;
    case PhraseOpKind::kPay:
      Add(op.reg);
      Add(op.index);
      break;
    case PhraseOpKind::kOwe:
      Add(op.index);
      break;
  }
}

void WrittenRegisters::AddPass(const PhraseOp& op) {
  for (const uint32_t message : {op.receive, op.post}) {
    if (message != kNone) {
      Add(compiler_->posts()[message].reg);
    }
  }
  if (op.index != kNone) {
    const Move& move = compiler_->tape().moves[op.index];
    const uint16_t* reg = compiler_->tape().registers.data() + move.registers + move.inputs;
    for (const uint16_t* const end = reg + move.outputs + move.following; reg < end; ++reg) {
      Add(*reg);
    }
  }
}

}  // namespace prism::replayer
