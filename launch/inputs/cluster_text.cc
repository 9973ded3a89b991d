#include "launch/inputs/cluster_text.h"

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/job/names.h"

namespace prism::launch {
namespace {

// Strings of TOML are written as JSON's.
std::string Quoted(std::string_view text) {
  std::string quoted;
  JsonWriter(&quoted).Value(text);
  return quoted;
}

std::string GpuText(const graph::GpuSpec& gpu) {
  return fmt::format(
      "\n[gpu]\nname = {}\ncompute_major = {}\ncompute_minor = {}\nsm_count = {}\n"
      "memory_bytes = {}\nl2_bytes = {}\nshared_memory_per_sm = {}\n"
      "shared_memory_per_block_optin = {}\nsegments_ascending = {}\n",
      Quoted(gpu.name), gpu.compute_major, gpu.compute_minor, gpu.sm_count, gpu.memory_bytes,
      gpu.l2_bytes, gpu.shared_memory_per_sm, gpu.shared_memory_per_block_optin,
      gpu.segments_ascending);
}

std::string NetworkText(const graph::NetworkSpec& network, const std::string& source) {
  return fmt::format(
      "\n[network]\nsource = {}\nkind = \"{}\"\nrouting = \"{}\"\nplanes = {}\n"
      "nodes_per_leaf = {}\nleaf_uplinks = {}\nleaves_per_pod = {}\nspine_uplinks = {}\n"
      "torus_x = {}\ntorus_y = {}\ntorus_z = {}\nnodes_per_cluster = {}\nconnections = {}\n"
      "uplink_bytes_per_s = {}\ncluster_bytes_per_s = {}\ncluster_ns = {}\n",
      Quoted(source), NameOf(graph::kFabricKindNames, network.kind),
      NameOf(graph::kFabricRoutingNames, network.routing), network.planes, network.nodes_per_leaf,
      network.leaf_uplinks, network.leaves_per_pod, network.spine_uplinks, network.torus[0],
      network.torus[1], network.torus[2], network.nodes_per_cluster, network.connections,
      network.uplink_bytes_per_s, network.cluster_bytes_per_s, network.cluster_ns);
}

}  // namespace

std::string ClusterText(const graph::ClusterSpec& cluster) {
  constexpr std::array<const char*, 3> kMarks = {"measured", "fitted", "assumed"};
  std::string text =
      fmt::format("name = {}\nsource = {}\ngpus_per_node = {}\n", Quoted(cluster.name),
                  Quoted(cluster.source), cluster.gpus_per_node);
  text += GpuText(cluster.gpu);
  text += NetworkText(cluster.network, cluster.source);
  text += "\n[parameters]\n";
  for (const graph::Parameter& parameter : cluster.parameters.all()) {
    text += fmt::format("{} = {{ value = {}, unit = {}, source = {}, mark = \"{}\" }}\n",
                        parameter.key, parameter.value, Quoted(parameter.unit),
                        Quoted(parameter.source), kMarks.at(static_cast<size_t>(parameter.mark)));
  }
  return text;
}

}  // namespace prism::launch
