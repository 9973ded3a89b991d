#include "launch/inputs/cluster_text.h"

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/job/fields.h"
#include "graph/job/names.h"

namespace prism::launch {
namespace {

// Strings of TOML are written as JSON's.
std::string Quoted(std::string_view text) {
  std::string quoted;
  JsonWriter(&quoted).Value(text);
  return quoted;
}

#define PRISM_LINE(member, name) text += fmt::format(#name " = {}\n", spec.member);

std::string GpuText(const graph::GpuSpec& spec) {
  std::string text = fmt::format("\n[gpu]\nname = {}\n", Quoted(spec.name));
  PRISM_GPU_FIELDS(PRISM_LINE)
  return text;
}

std::string NetworkText(const graph::NetworkSpec& spec, const std::string& source) {
  std::string text = fmt::format("\n[network]\nsource = {}\nkind = \"{}\"\nrouting = \"{}\"\n",
                                 Quoted(source), NameOf(graph::kFabricKindNames, spec.kind),
                                 NameOf(graph::kFabricRoutingNames, spec.routing));
  PRISM_TREE_FIELDS(PRISM_LINE)
  PRISM_LINE(torus[0], torus_x)
  PRISM_LINE(torus[1], torus_y)
  PRISM_LINE(torus[2], torus_z)
  PRISM_NETWORK_FIELDS(PRISM_LINE)
  return text;
}

#undef PRISM_LINE

}  // namespace

std::string ClusterText(const graph::ClusterSpec& cluster) {
  std::string text =
      fmt::format("name = {}\nsource = {}\ngpus_per_node = {}\n", Quoted(cluster.name),
                  Quoted(cluster.source), cluster.gpus_per_node);
  text += GpuText(cluster.gpu);
  text += NetworkText(cluster.network, cluster.source);
  text += "\n[parameters]\n";
  for (const graph::Parameter& parameter : cluster.parameters.all()) {
    text += fmt::format("{} = {{ value = {}, unit = {}, source = {}, mark = \"{}\" }}\n",
                        parameter.key, parameter.value, Quoted(parameter.unit),
                        Quoted(parameter.source), NameOf(graph::kMarkNames, parameter.mark));
  }
  return text;
}

}  // namespace prism::launch
