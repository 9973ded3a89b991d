// Which line of the program makes a call to other ranks: for prism check, whose recordings ask for
// it (PRISM_CHECK). The Python side is in shim/rendezvous/absent_ranks.py.
#pragma once

namespace prism::shim {

// Called before a call is recorded: writes a note with the program's line in front of it. Does
// nothing unless Python has asked to be called.
void ReportSourceLine();

}  // namespace prism::shim
