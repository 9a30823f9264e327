#!/usr/bin/env bash
# Package: tinygrad 0.14.0 (PyPI), with its Python device, which needs no compiler.
# What it does: returns 1e6 for a float that is cast to half and back, while isinf of the same half tensor is true. The two casts are
#   removed unless the half tensor is realized in between. bfloat16 is always rounded.
# Found in: a simulation of float16 gradients by two casts.
# Guess: half has no 1e6, so the value is Inf whether the tensor is realized or not, and isinf agrees with it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q tinygrad==0.14.0 numpy==2.4.6
DEV=PYTHON "$work/venv/bin/python" - <<'EOF'
import importlib.metadata
import numpy as np
from tinygrad import Tensor, dtypes

values = [1e6, 0.3, 1e-9]

def back(dtype, realize):
    narrow = Tensor(values).cast(dtype)
    return (narrow.realize() if realize else narrow).cast(dtypes.float).numpy()

print("tinygrad", importlib.metadata.version("tinygrad"), "input", values)
fused, realized = back(dtypes.half, False), back(dtypes.half, True)
is_inf = Tensor(values).cast(dtypes.half).isinf().numpy().tolist()
print("half and back           ", fused)
print("half, realized, and back", realized)
print("isinf of the half tensor", is_inf)
print("bfloat16 and back       ", back(dtypes.bfloat16, False))
assert (fused == np.float32(values)).all()
assert (realized == np.float32([np.inf, 0.300048828125, 0])).all()
assert is_inf == [True, False, False]
assert (back(dtypes.bfloat16, False) == back(dtypes.bfloat16, True)).all()
EOF
