"""Stand-ins for apex's compiled extensions, which have no wheel: same interfaces, same device
allocations, no arithmetic (kernels of the virtual device do nothing anyway). Written from the
sources of NVIDIA/apex: csrc/layer_norm_cuda.cpp, csrc/layer_norm_cuda_kernel.cu,
apex/contrib/csrc/layer_norm/ln_api.cpp, csrc/multi_tensor_l2norm_kernel.cu,
apex/optimizers/fused_adam.py and csrc/megatron/scaled_*_softmax*.cu.
"""
