// The worker processes of a run and the byte messages between them; the only file that knows MPI.
//
// Not started by mpirun or Slurm: a session of one; Open MPI is loaded only where one of them
// started us. Messages to oneself are delivered like all others, so that callers need no special
// case. Nothing here busy-waits, since many processes may share a few cores.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "graph/base/status.h"

namespace prism::launch {

struct PeerMessage {
  int from = 0;
  std::string bytes;
};

class MpiSession {
 public:
  // Joins the job that started this process. kEnvironment when that fails.
  static Result<MpiSession> Start();

  // True when a launcher has started this process.
  static bool LaunchedByMpi();

  // The program that started this process: "mpirun", "orted", "slurmstepd".
  static std::string LauncherName();

  // The number of this process as its launcher gave it, known before Start; 0 without a launcher.
  static int LaunchedRank();

  MpiSession(MpiSession&&) noexcept;
  MpiSession& operator=(MpiSession&&) noexcept;
  ~MpiSession();  // leaves the job in order; all processes must reach this, or a host be gone

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  // "Open MPI v4.1.4"; "" for a session of one that no launcher started.
  [[nodiscard]] std::string LibraryVersion() const;

  // Hands over the message and returns; messages of one sender arrive in order. At most 2 GiB.
  void Send(int to, std::string bytes);

  // How long another host may be silent, and what it is called (host_watch.h).
  void SetHostTimeout(int seconds);
  void NameHost(const std::string& addresses, const std::string& name);

  // The next message that has arrived, if any. Never waits.
  std::optional<PeerMessage> TryReceive();

  // Waits for a message; fails when InterruptStatus does.
  Result<PeerMessage> Receive();

  // Ends all processes at once, with this exit code.
  [[noreturn]] void Abort(int exit_code);

 private:
  class Impl;
  explicit MpiSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace prism::launch
