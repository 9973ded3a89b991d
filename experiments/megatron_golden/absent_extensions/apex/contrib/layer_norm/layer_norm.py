import torch


class FastLayerNormFN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta, epsilon, memory_efficient=False):
        x = x.contiguous()
        matrix = x.view(-1, gamma.numel())
        z = torch.empty_like(matrix)
        mu = torch.empty(matrix.shape[0], dtype=torch.float32, device=x.device)
        rsigma = torch.empty_like(mu)
        ctx.save_for_backward(z if memory_efficient else x, gamma, mu, rsigma)
        return z.view(x.shape)

    @staticmethod
    def backward(ctx, dz):
        x, gamma, mu, _ = ctx.saved_tensors
        dx = torch.empty_like(x)
        dgamma = torch.empty_like(gamma)
        dbeta = torch.empty_like(gamma)
        # One partial sum for each block of rows; two blocks per multiprocessor.
        blocks = 2 * torch.cuda.get_device_properties(x.device).multi_processor_count
        partial_gamma = mu.new_empty(blocks, gamma.numel())
        partial_beta = torch.empty_like(partial_gamma)
        del partial_gamma, partial_beta
        return dx, dgamma, dbeta, None, None
