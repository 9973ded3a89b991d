// Redirects the stores of a program to the server that answers for absent ranks
// (launch/emulate/store/store_server.h).
#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "shim/rendezvous/hooks.h"

namespace prism::shim {

// Where the server answers for the store of this name.
struct StoreAddress {
  std::string host;
  uint16_t port = 0;
};

// Asks the server. Throws what a TCPStore client throws when the server is gone.
StoreAddress AddressOfStore(const std::string& name, TcpStoreConstructor* construct);

// A client of the store at that address, which has sent its rank and process to the server.
c10::intrusive_ptr<c10d::TCPStore> ConnectToStore(const StoreAddress& address,
                                                  TcpStoreConstructor* construct);

// Constructs at `self` a client of the store that the program identifies by host and port.
void MakeTcpStore(void* self,
                  const std::string& host,
                  const c10d::TCPStoreOptions& options,
                  TcpStoreConstructor* construct);

}  // namespace prism::shim
