"""The noise scale of data-parallel training, from the gradients that ranks average anyway.

torchrun --standalone --nproc-per-node 2 examples/ddp.py
"""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from reproduce.noise_scale import NoiseScale

# Every sample's gradient is -x, of mean MEAN and variance 1 in each of FEATURES weights, however long we train:
# the noise scale is tr Sigma / |G|^2 = FEATURES / (FEATURES MEAN^2) = 100 samples.
FEATURES, MEAN, SHARE, STEPS = 64, 0.1, 128, 200

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(dist.get_rank())  # a rank's own samples
model = DistributedDataParallel(nn.Linear(FEATURES, 1, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
noise_scale = NoiseScale(model)

for _ in range(STEPS):
    share = MEAN + torch.randn(SHARE, FEATURES)
    optimizer.zero_grad()
    (-model(share)).mean().backward()
    noise_scale.update(samples=SHARE)
    optimizer.step()

estimate = noise_scale.estimate()  # collective: on every rank
if dist.get_rank() == 0:
    print(f"noise scale {estimate}, known: {1 / MEAN**2:.4g}")
dist.destroy_process_group()
time.sleep(1)  # until gloo's threads are done with the last tensors: at the interpreter's end they would abort it
