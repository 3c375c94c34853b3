"""The noise scale on one device, from the micro-batches of gradient accumulation.

python examples/gradient_accumulation.py
"""

import torch
from torch import nn

from reproduce.noise_scale import NoiseScale

# Every sample's gradient is -x, of mean MEAN and variance 1 in each of FEATURES weights, however long we train:
# the noise scale is tr Sigma / |G|^2 = FEATURES / (FEATURES MEAN^2) = 100 samples.
FEATURES, MEAN, STEPS = 64, 0.1, 300
MICRO_BATCHES, SAMPLES = 4, 64

torch.manual_seed(0)
model = nn.Linear(FEATURES, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
noise_scale = NoiseScale(model, micro_batches=True)

for _ in range(STEPS):
    optimizer.zero_grad()
    for _ in range(MICRO_BATCHES):
        inputs = MEAN + torch.randn(SAMPLES, FEATURES)
        (-model(inputs).mean() / MICRO_BATCHES).backward()
        noise_scale.micro_batch(samples=SAMPLES, weight=1 / MICRO_BATCHES)
    noise_scale.update()
    optimizer.step()

print(f"noise scale {noise_scale.estimate()}, known: {1 / MEAN**2:.4g}")
