// c10d::FileStore, implemented through the server: a file:// rendezvous waits for the other ranks'
// lines in the file, which never come.
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "shim/observer/torch_versions.h"
#include "shim/rendezvous/python_hooks.h"
#include "shim/rendezvous/store_client.h"

namespace prism::shim {
namespace {

using Bytes = std::vector<uint8_t>;

// Constructed in the memory of the program's FileStore, so it cannot have fields of its own: its
// client is looked up by its address.
class ServedFileStore final : public c10d::FileStore {
 public:
  ServedFileStore(const std::string& path, int workers, TcpStoreConstructor* construct)
      : c10d::FileStore(path, workers) {
    Keep({ConnectToStore(AddressOfStore("file:" + path, construct), construct), construct});
  }

  ~ServedFileStore() override {
    const std::lock_guard<std::mutex> lock(Table().mutex);
    Table().clients.erase(this);
  }

#if PRISM_TORCH_CLONES_STORES
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<ServedFileStore>(path_, numWorkers_, Find().construct);
  }
#endif

  void set(const std::string& key, const Bytes& value) override { Client().set(key, value); }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return Client().compareSet(key, expected, desired);
  }
  Bytes get(const std::string& key) override {
    Client().wait({key}, timeout_);
    return Client().get(key);
  }
  int64_t add(const std::string& key, int64_t value) override { return Client().add(key, value); }
  int64_t getNumKeys() override { return Client().getNumKeys(); }
  bool deleteKey(const std::string& key) override { return Client().deleteKey(key); }
  bool check(const std::vector<std::string>& keys) override { return Client().check(keys); }
  void wait(const std::vector<std::string>& keys) override { Client().wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    Client().wait(keys, timeout);
  }
#if PRISM_TORCH_LISTS_KEYS
  std::vector<std::string> listKeys() override { return Client().listKeys(); }
#endif

 private:
  struct Served {
    c10::intrusive_ptr<c10d::TCPStore> client;
    TcpStoreConstructor* construct = nullptr;
  };
  struct ClientTable {
    std::mutex mutex;
    std::map<const void*, Served> clients;
  };

  static ClientTable& Table() {
    static auto* const table = new ClientTable();  // never destroyed: stores live until the end
    return *table;
  }
  void Keep(Served served) {
    const std::lock_guard<std::mutex> lock(Table().mutex);
    Table().clients[this] = std::move(served);
  }
  Served Find() {
    const std::lock_guard<std::mutex> lock(Table().mutex);
    return Table().clients.at(this);
  }
  c10d::TCPStore& Client() { return *Find().client; }
};

static_assert(sizeof(ServedFileStore) == sizeof(c10d::FileStore));

}  // namespace
}  // namespace prism::shim

extern "C" __attribute__((visibility("default"))) void prism_rendezvous_make_file_store(
    void* self, std::string* path, int workers, prism::shim::TcpStoreConstructor* construct) {
  prism::shim::RunPythonHooks();
  new (self) prism::shim::ServedFileStore(*path, workers, construct);
}
