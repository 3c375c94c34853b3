"""The noise scale of Adam's steps beside that of plain gradients.

python examples/adam.py
"""

import torch
from torch import nn

from reproduce.noise_scale import NoiseScale

# Every sample's gradient is -x: MEAN in each weight, with a deviation of 1 in half of them and of 3 in the others.
FEATURES, MEAN, BATCH, STEPS, FIRST_STEPS = 64, 0.2, 64, 600, 100
DEVIATION = torch.tensor([1.0, 3.0]).repeat(FEATURES // 2)

torch.manual_seed(0)
model = nn.Linear(FEATURES, 1, bias=False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
plain = NoiseScale(model, micro_batches=True)
adam = NoiseScale(model, micro_batches=True, precondition=optimizer)

for step in range(FIRST_STEPS + STEPS):
    optimizer.zero_grad()
    for _ in range(2):
        inputs = MEAN + DEVIATION * torch.randn(BATCH // 2, FEATURES)
        (-model(inputs).mean() / 2).backward()
        for noise_scale in (plain, adam):
            noise_scale.micro_batch(samples=BATCH // 2, weight=1 / 2)
    plain.update()
    adam.update()  # before the step, whose v would hold this very gradient
    optimizer.step()
    if step == FIRST_STEPS:  # v is a mean of few squares until now
        plain.flush()
        adam.flush()
        plain.estimator.reset()
        adam.estimator.reset()

variance = DEVIATION.square()
v = MEAN**2 + variance / BATCH
print(f"noise scale {plain.estimate()}, known: {float(variance.sum() / (FEATURES * MEAN**2)):.4g}")
print(f"of Adam's steps {adam.estimate()}, known: {float((variance / v).sum() / (MEAN**2 / v).sum()):.4g}")
