// Who asks whether a child process has ended, finds it running, and sleeps to ask again (Python's
// subprocess with a time-out) waits for something that takes real time: such a sleep is one of the
// machine's, not host time of the rank. If it took no real time, the time-out would be over before
// the child had a chance to end.
#pragma once

namespace prism::shim {

// Whether the calling thread has just been told that a child is still running; once per answer.
bool TakeRunningChild();

}  // namespace prism::shim
