// The plain fields of a job and a cluster, each stated once: the file format (graph/proto/),
// presets and comparisons (graph/diff/) are loops over these lists. X takes the member and the
// field's name. What is an enumerator or a list has a form of its own in each, and stands there.
#pragma once

// ModelSpec, without its name and where it is from.
#define PRISM_MODEL_FIELDS(X)                 \
  X(layers, layers)                           \
  X(hidden, hidden)                           \
  X(heads, heads)                             \
  X(kv_heads, kv_heads)                       \
  X(ffn, ffn)                                 \
  X(vocab, vocab)                             \
  X(tied_embeddings, tied_embeddings)         \
  X(head_dim, head_dim)                       \
  X(sliding_window, sliding_window)           \
  X(moe.experts, experts)                     \
  X(moe.topk, moe_topk)                       \
  X(moe.expert_ffn, expert_ffn)               \
  X(moe.shared_expert_ffn, shared_expert_ffn) \
  X(moe.dense_layers, dense_layers)           \
  X(moe.biased, expert_biases)                \
  X(latent.q_rank, latent_q_rank)             \
  X(latent.kv_rank, latent_kv_rank)           \
  X(latent.rope_dim, latent_rope_dim)         \
  X(latent.value_dim, latent_value_dim)       \
  X(mtp_layers, mtp_layers)

// JobSpec: layout and batch.
#define PRISM_LAYOUT_FIELDS(X)            \
  X(parallel.tp, tp)                      \
  X(parallel.cp, cp)                      \
  X(parallel.dp, dp)                      \
  X(parallel.pp, pp)                      \
  X(parallel.ep, ep)                      \
  X(parallel.vpp, vpp)                    \
  X(parallel.etp, etp)                    \
  X(sequence_parallel, sequence_parallel) \
  X(micro_batch_size, micro_batch_size)   \
  X(global_batch_size, global_batch_size) \
  X(seq_len, seq_len)

// ProgramFacts.
#define PRISM_FACT_FIELDS(X)              \
  X(torch, torch)                         \
  X(checked, checked)                     \
  X(warmup_iterations, warmup_iterations) \
  X(iteration_begin, iteration_begin)     \
  X(steps_per_iteration, steps_per_iteration)

// GpuSpec, without its name.
#define PRISM_GPU_FIELDS(X)                                       \
  X(compute_major, compute_major)                                 \
  X(compute_minor, compute_minor)                                 \
  X(sm_count, sm_count)                                           \
  X(memory_bytes, memory_bytes)                                   \
  X(l2_bytes, l2_bytes)                                           \
  X(shared_memory_per_sm, shared_memory_per_sm)                   \
  X(shared_memory_per_block_optin, shared_memory_per_block_optin) \
  X(segments_ascending, segments_ascending)

// NetworkSpec: of trees, and of all networks.
#define PRISM_TREE_FIELDS(X)        \
  X(planes, planes)                 \
  X(nodes_per_leaf, nodes_per_leaf) \
  X(leaf_uplinks, leaf_uplinks)     \
  X(leaves_per_pod, leaves_per_pod) \
  X(spine_uplinks, spine_uplinks)
#define PRISM_NETWORK_FIELDS(X)               \
  X(nodes_per_cluster, nodes_per_cluster)     \
  X(connections, connections)                 \
  X(uplink_bytes_per_s, uplink_bytes_per_s)   \
  X(cluster_bytes_per_s, cluster_bytes_per_s) \
  X(cluster_ns, cluster_ns)
