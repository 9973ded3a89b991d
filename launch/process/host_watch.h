// Whether the other hosts of a run still answer, by what the kernel knows of this process's
// connections to them. It asks idle ones (TCP's keepalive), and the other host's kernel answers
// even if every process there is stopped or busy; so a host counts as gone only when its network is
// cut, it is down, or the process at the other end of all connections has died.
//
// MPI opens the connections, so nothing is sent or opened here; where MPI does not use TCP between
// hosts, nothing is noticed.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "graph/base/status.h"

namespace prism::launch {

class HostWatch {
 public:
  HostWatch();
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  // How long a host may be silent.
  void set_timeout_s(int seconds) { timeout_s_ = seconds; }

  // What a host is called in messages. `addresses`: as AddressesOfThisHost returned there.
  void Name(const std::string& addresses, const std::string& name);

  // Looks now; it does so several times a second by itself.
  void Look();

  // Whether one is gone without a word, so that the launcher may not know.
  [[nodiscard]] bool lost_silently() const { return lost_silently_; }

  // kRunFailed with the host's name once one is gone.
  [[nodiscard]] Status status() const;

 private:
  void Watch();
  void Lose(const std::string& address, const std::string& how);

  std::atomic<int> timeout_s_{20};
  std::atomic<bool> done_{false};
  std::atomic<bool> lost_silently_{false};
  std::mutex looking_;
  mutable std::mutex mutex_;  // of what follows, but connections_
  std::string lost_;          // address
  std::string how_;
  std::map<std::string, std::string> names_;  // by address
  std::map<std::string, int> connections_;    // at the last look; by address
  std::thread thread_;
};

// Separated by spaces; none of the loopback interface.
std::string AddressesOfThisHost();

}  // namespace prism::launch
