"""Trains a network on handwritten digits with fp16 weights, activations and gradients. The first scale is too large: gradients
overflow, these steps are skipped, and the scale falls.

    python3 train.py digits.csv
"""
import sys

import headroom
import numpy as np

EPOCHS, BATCH, RATE = 12, 64, 0.1
half = np.float16


def product(a, b):
    """fp16 factors, a sum in float, an fp16 result: as a matrix unit computes it."""
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(half)


def forward(weights, x):
    hidden = np.maximum(product(x, weights["body"]) + weights["body_bias"], half(0))
    return hidden, (product(hidden, weights["head"]) + weights["head_bias"]).astype(np.float32)


def backward(weights, x, labels, scale):
    """The gradients of scale * cross entropy, in fp16."""
    hidden, logits = forward(weights, x)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    d_logits = odds / odds.sum(axis=1, keepdims=True)
    d_logits[np.arange(len(x)), labels] -= 1
    d_logits = (d_logits * (scale / len(x))).astype(half)
    d_hidden = product(d_logits, weights["head"].T) * (hidden > 0)
    return {"body": product(x.T, d_hidden), "body_bias": d_hidden.sum(axis=0, dtype=half), "head": product(hidden.T, d_logits),
            "head_bias": d_logits.sum(axis=0, dtype=half)}


def main():
    np.seterr(over="ignore", invalid="ignore")  # the scaler notices
    random = np.random.default_rng(1)
    digits = np.loadtxt(sys.argv[1], delimiter=",", dtype=np.float32)
    random.shuffle(digits)
    x, labels = (digits[:, :64] / 16).astype(half), digits[:, 64].astype(int)
    test, train = slice(0, 360), np.arange(360, len(x))

    weights = {"body": random.normal(0, 0.18, (64, 32)), "body_bias": np.zeros(32), "head": random.normal(0, 0.25, (32, 10)),
               "head_bias": np.zeros(10)}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    grads, momentum = ({name: np.zeros_like(array) for name, array in weights.items()} for _ in range(2))
    scaler = headroom.GradScaler(headroom.LossScale("dynamic", initial_scale=2.0**24, growth_interval=100))
    skipped = taken = 0
    for epoch in range(EPOCHS):
        random.shuffle(train)
        for batch in np.array_split(train, len(train) // BATCH):
            weights16 = {name: array.astype(half) for name, array in weights.items()}
            step = scaler.step_into(backward(weights16, x[batch], labels[batch], scaler.scale(1.0)), grads)
            if step.skipped:
                print(f"step {skipped + taken} skipped: {step.nonfinite}, at a scale of {step.loss_scale:g}")
                skipped += 1
            else:
                for name in weights:
                    momentum[name] = 0.9 * momentum[name] + grads[name]
                    weights[name] -= RATE * momentum[name]
                taken += 1
            scaler.update()

    _, logits = forward({name: array.astype(half) for name, array in weights.items()}, x[test])
    accuracy = (logits.argmax(axis=1) == labels[test]).mean()
    print(f"{taken} steps taken, {skipped} skipped, last scale {scaler.get_scale():g}, test accuracy {accuracy:.1%}")
    return 0 if accuracy > 0.94 and 0 < skipped < taken / 10 else 1


if __name__ == "__main__":
    sys.exit(main())
