"""Trains one network twice: with torch.amp.GradScaler and clip_grad_norm_, and with headroom. Ends with 1 unless all scales are
equal, the same steps are skipped, and no weight differs by 1e-6. torch divides by norm + 1e-6 to clip, headroom by the norm.

    pip install torch numpy && python3 compare_torch.py
"""
import sys

import headroom
import torch

STEPS, OVERFLOWS, MAX_NORM = 200, (7, 60, 61, 150), 0.1


class Run:
    def __init__(self):
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.scales, self.skipped = [], []

    def backward(self, scaler, step):
        random = torch.Generator().manual_seed(step)
        x = torch.randn(16, 32, generator=random)
        loss = torch.nn.functional.mse_loss(self.model(x), x[:, :8] * x[:, 8:16])
        self.optimizer.zero_grad()
        scaled = scaler.scale(loss)
        self.scales.append((scaled / loss).item())
        scaled.backward()
        if step in OVERFLOWS:
            self.model[2].weight.grad[3, 5] = float("inf")


class Torch(Run):
    def __init__(self):
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=20)

    def step(self, step):
        self.backward(self.scaler, step)
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.scaler.get_scale() < before:
            self.skipped.append(step)


class Headroom(Run):
    def __init__(self):
        super().__init__()
        self.scaler = headroom.GradScaler(headroom.LossScale("torch", growth_interval=20))
        self.clipped = 0

    def step(self, step):
        self.backward(self.scaler, step)
        grads = {name: parameter.grad for name, parameter in self.model.named_parameters()}
        self.clipped += self.scaler.unscale_and_clip_(grads, MAX_NORM).norm > MAX_NORM  # Inf counts
        result = self.scaler.step(grads)
        if result.skipped:
            print(f"step {step} skipped: {result.nonfinite}")
            self.skipped.append(step)
        else:
            self.optimizer.step()
        self.scaler.update()


def main():
    theirs, ours = Torch(), Headroom()
    for step in range(STEPS):
        theirs.step(step)
        ours.step(step)
    pairs = list(zip(theirs.model.parameters(), ours.model.parameters()))
    difference = max((a - b).abs().max().item() for a, b in pairs)
    largest = max(a.abs().max().item() for a, _ in pairs)
    print(f"torch {torch.__version__}: {STEPS} scales from {min(ours.scales):g} to {max(ours.scales):g}, "
          f"equal: {theirs.scales == ours.scales}; {ours.clipped} steps clipped; "
          f"weights up to {largest:.2f} differ by {difference:.2g}")
    return 0 if theirs.scales == ours.scales and theirs.skipped == ours.skipped == list(OVERFLOWS) and difference < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
