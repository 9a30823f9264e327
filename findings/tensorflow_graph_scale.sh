#!/usr/bin/env bash
# Package: tensorflow-cpu 2.21.0 (PyPI).
# What it does: tf.function computes another result in float16 than the same lines run eagerly, because the graph optimizer merges constant
#   factors first and rounds their product to float16. It removes an overflow in one function, and makes one in the other.
# Found in: a loss that is multiplied by a scale and divided by it, where nothing in between uses the product.
# Guess: tf.function changes the speed. An overflow that eager execution sees is there in the graph, and no other.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q tensorflow-cpu==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$work/venv/bin/python" - <<'EOF'
import tensorflow as tf

print("tensorflow", tf.__version__)

def one_factor(x):
    return x * 32768.0 * 2.0**-15

def two_factors(x):
    return x * 256.0 * 256.0 * 2.0**-16

def graph(f):
    return tf.function(f, autograph=False)

x = tf.constant([3.0, 0.5], tf.float16)
for f in (one_factor, two_factors):
    print(f.__name__, "of", x.numpy(), "eager", f(x).numpy(), "tf.function", graph(f)(x).numpy())

inf = float("inf")
assert one_factor(x).numpy().tolist() == [inf, 0.5]
assert graph(one_factor)(x).numpy().tolist() == [3.0, 0.5]
assert two_factors(x).numpy().tolist() == [inf, 0.5]
assert graph(two_factors)(x).numpy().tolist() == [inf, inf]
EOF
