"""experiments/06_torchtitan/train.py with the RMSNorm of torch before 2.9: some kernels instead of one."""
import runpy

import torch


def forward(self, x):
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True).add_(self.eps))
    return y.type_as(x) * self.weight


torch.nn.RMSNorm.forward = forward
runpy.run_path("experiments/06_torchtitan/train.py", run_name="__main__")
