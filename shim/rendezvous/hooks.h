// The interface of libprism_rendezvous.so to libprism_shim.so: replacements for constructors of
// libtorch that the shim interposes. Arguments are those of the constructor, by address as the C++
// ABI passes them. Foreign exceptions pass through.
#pragma once

namespace prism::shim {

// c10d::TCPStore(std::string host, const TCPStoreOptions& options)
using TcpStoreConstructor = void(void* self, void* host, const void* options);

// The exported names of the replacements for the constructors of TCPStore and FileStore; both take
// the real constructor of TCPStore as an additional argument.
inline constexpr const char* kMakeTcpStore = "prism_rendezvous_make_tcp_store";
inline constexpr const char* kMakeFileStore = "prism_rendezvous_make_file_store";
// The same for ProcessGroupGloo's constructor, and for its createDefaultDevice().
inline constexpr const char* kMakeGloo = "prism_rendezvous_make_gloo";
inline constexpr const char* kMakeGlooDevice = "prism_rendezvous_make_gloo_device";

// Port of the server (launch/emulate/store/store_server.h), as a decimal number.
inline constexpr const char* kStoreVariable = "PRISM_STORE";

}  // namespace prism::shim
