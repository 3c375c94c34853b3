"""The noise scale on one device, from every sample's own gradient: no micro-batches, no second pass.

python examples/per_example.py
"""

import torch
from torch import nn

from reproduce.per_example import PerExampleNoiseScale

# Every sample's gradient is -x, of mean MEAN and variance 1 in each of FEATURES weights, however long we train:
# the noise scale is tr Sigma / |G|^2 = FEATURES / (FEATURES MEAN^2) = 100 samples.
FEATURES, MEAN, BATCH, STEPS = 64, 0.1, 256, 300

torch.manual_seed(0)
model = nn.Linear(FEATURES, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
noise_scale = PerExampleNoiseScale(model)

for _ in range(STEPS):
    inputs = MEAN + torch.randn(BATCH, FEATURES)
    optimizer.zero_grad()
    (-model(inputs)).mean().backward()
    noise_scale.update()
    optimizer.step()

print(f"noise scale {noise_scale.estimate()}, known: {1 / MEAN**2:.4g}")
