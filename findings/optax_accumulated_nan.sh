#!/usr/bin/env bash
# Packages: optax 0.2.8 and jax 0.10.2 (PyPI).
# What it does: one NaN gradient stops a training that accumulates two gradients a step and skips steps that are not finite. MultiSteps
#   clears its sum by multiplying it by 0, and 0 * NaN is NaN. So every later sum is NaN, apply_if_finite skips it, and the parameter stays.
# Found in: optax.MultiSteps around optax.apply_if_finite.
# Guess: the step with the NaN is skipped, and the next one is taken, as with apply_if_finite alone.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q optax==0.2.8 jax==0.10.2 jaxlib==0.10.2
JAX_PLATFORMS=cpu "$work/venv/bin/python" - <<'EOF'
import jax, jax.numpy as jnp, optax

def train(optimizer, gradients):
    parameter = jnp.float32(0)
    state = optimizer.init(parameter)
    history = []
    for gradient in gradients:
        update, state = optimizer.update(jnp.float32(gradient), state, parameter)
        parameter = optax.apply_updates(parameter, update)
        history.append(float(parameter))
    return history

gradients = [1, float("nan"), 1, 1, 1, 1, 1, 1]
skipping = optax.apply_if_finite(optax.sgd(1.0), max_consecutive_errors=100)
alone = train(skipping, gradients)
accumulated = train(optax.MultiSteps(skipping, every_k_schedule=2), gradients)
print("optax", optax.__version__, "jax", jax.__version__)
print("gradients                    ", gradients)
print("apply_if_finite              ", alone)
print("MultiSteps of apply_if_finite", accumulated)
assert alone == [-1, -1, -2, -3, -4, -5, -6, -7]
assert accumulated == [0] * 8
EOF
