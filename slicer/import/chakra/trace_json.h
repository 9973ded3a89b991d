// Chakra execution traces as JSON: the messages of an .et file one after the other, as protobuf
// (and with it chakra_jsonizer) prints them, or one list of nodes, as ASTRA-sim's "workload_graph".
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "slicer/import/chakra/chakra.pb.h"

namespace prism::slicer {

bool IsChakraJson(std::string_view bytes);

// Calls `take` for every node in the order of the file.
Status ReadChakraJson(std::string_view bytes,
                      const std::string& file,
                      const std::function<Status(const chakra::Node&)>& take);

}  // namespace prism::slicer
