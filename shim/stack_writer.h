// The stacks of this process, on request of its worker: it sends StackSignal() (messages.h) and
// reads what is written to the file PRISM_STACK_FD, up to a zero byte. Python's frames if an
// interpreter runs, else the native frames of the interrupted thread.
#pragma once

namespace prism::shim {

// Does nothing without PRISM_STACK_FD. Call once, when the session opens.
void InstallStackWriter();

}  // namespace prism::shim
