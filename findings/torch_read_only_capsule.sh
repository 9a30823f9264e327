#!/usr/bin/env bash
# Packages: torch 2.15.0 and numpy 2.4.6 (PyPI).
# What it does: torch.from_dlpack of a numpy array that is not writeable gives a tensor that changes the array, without an error or a
#   warning. numpy says "read-only" in its capsule, which has a version and flags. torch.from_numpy of the same array warns.
# Found in: torch.from_dlpack.
# Guess: an error, or at least the warning of torch.from_numpy.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.15.0 numpy==2.4.6  # some GB
"$work/venv/bin/python" - <<'PYTHON'
import warnings
import numpy as np, torch

array = np.ones(4, np.float32)
array.flags.writeable = False
with warnings.catch_warnings(record=True) as of_numpy:
    warnings.simplefilter("always")
    torch.from_numpy(array)
with warnings.catch_warnings(record=True) as of_dlpack:
    warnings.simplefilter("always")
    torch.from_dlpack(array).mul_(5)
capsule = repr(array.__dlpack__(max_version=(1, 0))).split('"')[1]
print("torch", torch.__version__, "numpy", np.__version__, "capsule", capsule)
print("warnings: from_numpy", len(of_numpy), "from_dlpack", len(of_dlpack))
print("the read-only array after from_dlpack(array).mul_(5):", array.tolist())
assert capsule == "dltensor_versioned"
assert len(of_numpy) == 1 and not of_dlpack
assert array.tolist() == [5, 5, 5, 5] and not array.flags.writeable
PYTHON
