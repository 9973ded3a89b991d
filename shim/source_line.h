// Which line of the program makes a call to other ranks: for prism check, whose recordings ask for
// it (PRISM_CHECK). The Python side is in shim/rendezvous/absent_ranks.py.
#pragma once

namespace prism::shim {

// Called before a call is recorded: writes a note with the program's line in front of it. Does
// nothing unless Python has asked to be called.
void ReportSourceLine();

// Behind it, which GPU of which node the calling thread uses for a new communicator: NCCL refuses
// two ranks on one. Nothing without a variable LOCAL_RANK: srun and mpirun may bind each process to
// a GPU of its own, which every rank then calls device 0.
void ReportDevice();

}  // namespace prism::shim
