"""Stand-ins for apex's compiled extensions, which have no wheel: same interfaces, no arithmetic
(kernels of the virtual device do nothing anyway). Device allocations follow the sources of
NVIDIA/apex as remembered: csrc/layer_norm_cuda.cpp, csrc/layer_norm_cuda_kernel.cu,
apex/contrib/csrc/layer_norm/ln_api.cpp, csrc/multi_tensor_l2norm_kernel.cu,
apex/optimizers/fused_adam.py and csrc/megatron/scaled_*_softmax*.cu.
"""
