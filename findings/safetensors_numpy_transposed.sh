#!/usr/bin/env bash
# Package: safetensors 0.8.0 (PyPI), compared with 0.7.0.
# What it does: saves a transposed numpy array with the shape of the transposed array and the elements in the order of memory, so another
#   matrix is loaded. 0.7.0 saves the matrix that was given.
# Found in: safetensors.numpy.save and save_file. numpy.linalg and scikit-learn return such arrays.
# Guess: the values of the array are saved, as by numpy.save and 0.7.0, or an error says that it is not in C order, as for torch tensors.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for version in 0.7.0 0.8.0; do
    "${PYTHON:-python3}" -m venv "$work/$version"
    "$work/$version/bin/pip" install -q "safetensors==$version" numpy==2.4.6
    "$work/$version/bin/python" - <<'EOF'
import numpy as np, safetensors
from safetensors.numpy import load, save

weight = np.arange(6, dtype=np.float32).reshape(2, 3).T
loaded = load(save({"weight": weight}))["weight"]
print("safetensors", safetensors.__version__, "saved", weight.tolist(), "loaded", loaded.tolist())
if safetensors.__version__ == "0.7.0":
    assert (loaded == weight).all()
else:
    assert loaded.tolist() == [[0, 1], [2, 3], [4, 5]]
EOF
done
