// The stacks of this process, on request of its worker: it sends StackSignal() (messages.h) and
// reads what comes into the file of PRISM_STACK_FD, up to a zero byte. Python's frames where an
// interpreter runs, the machine's of the interrupted thread where none does.
#pragma once

namespace prism::shim {

// Without PRISM_STACK_FD does nothing. Once, when the session opens.
void InstallStackWriter();

}  // namespace prism::shim
