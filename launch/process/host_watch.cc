#include "launch/process/host_watch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <ifaddrs.h>

namespace prism::launch {
namespace {

constexpr int kAskEveryS = 2;
constexpr int kLooksASecond = 4;

// "" for one that is none of the internet's, or of the loopback interface.
std::string AddressText(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (address->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &in->sin6_addr, text.data(), text.size());
  }
  const std::string found = text.data();
  return found.starts_with("127.") || found == "::1" ? "" : found;
}

// The address at the other end; "" if it is not a connection to another host.
std::string PeerOf(int descriptor) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  int protocol = 0;
  socklen_t protocol_size = sizeof(protocol);
  const bool is_tcp =
      getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &protocol_size) == 0 &&
      protocol == IPPROTO_TCP;
  return is_tcp && getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0
             ? AddressText(reinterpret_cast<const sockaddr*>(&address))
             : "";
}

void AskWhenIdle(int descriptor) {
  const int on = 1;
  const int many = 100;  // more than the watch waits for
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &kAskEveryS, sizeof(kAskEveryS));
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &kAskEveryS, sizeof(kAskEveryS));
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &many, sizeof(many));
}

}  // namespace

std::string AddressesOfThisHost() {
  ifaddrs* first = nullptr;
  std::string text;
  if (getifaddrs(&first) == 0) {
    for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
      if (const std::string found = at->ifa_addr == nullptr ? "" : AddressText(at->ifa_addr);
          !found.empty()) {
        text += (text.empty() ? "" : " ") + found;
      }
    }
    freeifaddrs(first);
  }
  return text;
}

HostWatch::HostWatch() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the main thread's
  thread_ = std::thread([this] { Watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HostWatch::~HostWatch() {
  done_ = true;
  thread_.join();
}

void HostWatch::Name(const std::string& addresses, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::istringstream words(addresses);
  for (std::string address; words >> address;) {
    names_[address] = name;
  }
}

Status HostWatch::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lost_.empty()) {
    return OkStatus();
  }
  const auto name = names_.find(lost_);
  return RunFailed(fmt::format(
      "host {} {}", name == names_.end() ? lost_ : fmt::format("{} ({})", name->second, lost_),
      how_));
}

void HostWatch::Lose(const std::string& address, const std::string& how) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lost_.empty()) {
    lost_ = address;
    how_ = how;
  }
}

void HostWatch::Look() {
  const std::lock_guard<std::mutex> lock(looking_);
  std::map<std::string, int> now;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    const std::string peer = descriptor <= STDERR_FILENO ? "" : PeerOf(descriptor);  // not MPI's
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (peer.empty() || getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        info.tcpi_state != TCP_ESTABLISHED) {
      continue;
    }
    ++now[peer];
    AskWhenIdle(descriptor);
    if (info.tcpi_last_ack_recv > 1000U * static_cast<uint32_t>(timeout_s_.load())) {
      lost_silently_ = true;
      Lose(peer,
           fmt::format("has not answered for {} s (--host-timeout): its network is cut, or it "
                       "is down",
                       timeout_s_.load()));
    }
  }
  for (const auto& [address, count] : connections_) {
    if (!now.contains(address)) {
      Lose(address, "has closed its connections: its process of this run has died");
    }
  }
  connections_ = std::move(now);
}

void HostWatch::Watch() {
  while (!done_) {
    Look();
    std::this_thread::sleep_for(std::chrono::milliseconds(1000 / kLooksASecond));
  }
}

}  // namespace prism::launch
