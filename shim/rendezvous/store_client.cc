#include "shim/rendezvous/store_client.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "shim/rendezvous/python_hooks.h"

namespace prism::shim {
namespace {

constexpr const char* kControlHost = "127.0.0.1";
constexpr const char* kAddressKey = "prism/address/";
constexpr const char* kProcessKey = "prism/process";

uint16_t ServerPort() {
  return static_cast<uint16_t>(std::strtoul(std::getenv(kStoreVariable), nullptr, 10));
}

// Constructs at `self` a client of this address, whatever role the program's options give it.
void Construct(void* self,
               const StoreAddress& address,
               c10d::TCPStoreOptions options,
               TcpStoreConstructor* construct) {
  options.isServer = false;
  options.masterListenFd.reset();
  options.port = address.port;
  std::string host = address.host;
  construct(self, &host, &options);
}

c10::intrusive_ptr<c10d::TCPStore> Connect(const StoreAddress& address,
                                           TcpStoreConstructor* construct) {
  void* const memory = ::operator new(sizeof(c10d::TCPStore));
  try {
    Construct(memory, address, {}, construct);
  } catch (...) {
    ::operator delete(memory);
    throw;
  }
  return c10::intrusive_ptr<c10d::TCPStore>::unsafe_steal_from_new(
      static_cast<c10d::TCPStore*>(memory));
}

// Rank and process, for the server's messages.
void Introduce(c10d::TCPStore* store) {
  const char* const rank = std::getenv("RANK");
  const std::string text =
      std::string(rank == nullptr ? "-1" : rank) + " " + std::to_string(getpid());
  store->set(kProcessKey, std::vector<uint8_t>(text.begin(), text.end()));
}

}  // namespace

StoreAddress AddressOfStore(const std::string& name, TcpStoreConstructor* construct) {
  const uint16_t port = ServerPort();
  const std::vector<uint8_t> host =
      Connect({kControlHost, port}, construct)->get(kAddressKey + name);
  return {std::string(host.begin(), host.end()), port};
}

c10::intrusive_ptr<c10d::TCPStore> ConnectToStore(const StoreAddress& address,
                                                  TcpStoreConstructor* construct) {
  auto store = Connect(address, construct);
  Introduce(store.get());
  return store;
}

// clone() of a store names the server itself; such a call is left alone.
void MakeTcpStore(void* self,
                  const std::string& host,
                  const c10d::TCPStoreOptions& options,
                  TcpStoreConstructor* construct) {
  RunPythonHooks();
  const bool is_clone = host.starts_with("127.1.") && options.port == ServerPort();
  const StoreAddress address =
      is_clone ? StoreAddress{host, options.port}
               : AddressOfStore(host + ":" + std::to_string(options.port), construct);
  Construct(self, address, options, construct);
  Introduce(static_cast<c10d::TCPStore*>(self));
}

}  // namespace prism::shim

extern "C" __attribute__((visibility("default"))) void prism_rendezvous_make_tcp_store(
    void* self,
    std::string* host,
    const c10d::TCPStoreOptions* options,
    prism::shim::TcpStoreConstructor* construct) {
  prism::shim::MakeTcpStore(self, *host, *options, construct);
}
