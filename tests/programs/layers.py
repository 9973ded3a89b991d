"""Layers and factorisations that go through cuDNN's calls per layer, cuFFT, cuSOLVER, cuSPARSE."""

import torch
from torch import nn

DEVICE = "cuda"


def train(name, model, *inputs):
    output = model.to(DEVICE)(*inputs)
    output = output[0] if isinstance(output, tuple) else output
    output.sum().backward()
    print(name, *output.shape)


images = torch.randn(8, 16, 10, 10, device=DEVICE)
steps = torch.randn(7, 4, 32, device=DEVICE)
train("normalised", nn.BatchNorm2d(16), images)
train("convolved", nn.Conv2d(16, 24, 3, stride=2), images)
train("transposed", nn.ConvTranspose2d(16, 24, 3), images)
train("recurrent", nn.LSTM(32, 64, num_layers=2, bidirectional=True, proj_size=16), steps)
train("gated", nn.GRU(32, 64, bias=False), steps)

print("spectrum", *torch.fft.irfft2(torch.fft.rfft2(images)).shape)
matrices = torch.randn(3, 6, 6, device=DEVICE)
print("inverse", *torch.linalg.inv(matrices).shape)
print("factors", *torch.linalg.qr(matrices)[0].shape, *torch.linalg.qr(matrices[0])[1].shape)
print("eigenvalues", *torch.linalg.eigh(torch.randn(200, 200, device=DEVICE))[0].shape)
print("singular", *torch.linalg.svdvals(matrices[0]).shape)
sparse = torch.eye(6, device=DEVICE).to_sparse_csr()
print("sparse", *(sparse @ matrices[0]).shape)
