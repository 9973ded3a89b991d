// A process that starts a program once and is forked for each rank: the fork server of a worker.
//
// It runs the program as any rank would, up to the first thing that depends on the rank: the
// program reads a variable that differs by rank (sitecustomize.py for os.environ, interpose.cc for
// getenv), makes a temporary folder, replaces itself by another program, or does something on the
// device that is recorded (shim/session.cc). There it stops, and from then on does nothing but
// fork, once for each rank that the worker asks for; the child goes on from that very place as the
// rank. What came before, usually the imports, is the same for all ranks, because nothing that
// differs by rank has been looked at: that is why a forked rank does what one does that was started
// by itself.
//
// Time stands still for the program until then. A process that cannot be forked (another thread
// lives, it is not Python's main thread) says why and ends; the worker then starts each rank by
// itself.
#pragma once

#include <atomic>
#include <string_view>

namespace prism::shim {

// Called by the session when it opens: this process is a fork server if its environment says so.
void OpenForkServer();

// Whether this process is a fork server; false from the moment it has become a rank.
inline std::atomic<bool> serves_forks{false};
inline bool ServesForks() {
  return serves_forks.load(std::memory_order_acquire);
}

// Whether ranks differ by this variable, in a fork server.
bool DiffersByRank(std::string_view variable);

// Returns in the child that is the rank; a fork server never returns from it. Nothing in a child
// that the fork server has forked by itself.
void ServeForks();

// Called before whatever depends on the rank.
inline void BecomeRank() {
  if (ServesForks()) {
    ServeForks();
  }
}

// The same; but in a child that the fork server has forked by itself, where it is too late, no rank
// will be forked, for this reason (a literal).
void BecomeRankOrGiveUp(const char* why);

// Called before this process becomes another program, or starts one. The environment that is to be
// used: the process's own, if that was meant, moves when the rank's variables are set.
char* const* SeeProgram(const char* path, char* const* environment);

// This call of fork makes a rank.
bool ForksRank();

// In a program without Python, what sitecustomize.py does else: its environment has nothing of the
// fork server's.
void RestoreEnvironment();

}  // namespace prism::shim
