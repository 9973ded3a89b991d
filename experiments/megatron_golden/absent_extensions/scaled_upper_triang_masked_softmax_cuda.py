from scaled_softmax_cuda import backward, forward, get_batch_per_block  # noqa: F401
