#!/usr/bin/env bash
# Package: h5py 3.16.0 (PyPI), whose wheel has HDF5 2.0.0.
# What it does: writes float32 values between 65504 and 65520 into a float16 dataset as Inf. HDF5 compares with the largest float16 before
#   it rounds. The same values given to create_dataset become 65504, because numpy converts them.
# Found in: assignment to an h5py dataset, and reading of a float32 dataset as float16.
# Guess: 65510 rounds to 65504, the nearest float16, as in IEEE 754, and both ways to write store the same.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q h5py==3.16.0 numpy==2.4.6
"$work/venv/bin/python" -W ignore - <<'EOF'
import h5py, numpy as np

values = np.array([65504, 65505, 65519, 65520], np.float32)
with h5py.File("unused", "w", driver="core", backing_store=False) as file:
    created = file.create_dataset("created", data=values, dtype="f2")[:]
    dataset = file.create_dataset("assigned", shape=values.shape, dtype="f2")
    dataset[...] = values
    assigned = dataset[:]
    read = file.create_dataset("read", data=values).astype("f2")[:]

print("h5py", h5py.__version__, "HDF5", h5py.version.hdf5_version)
print("float32              ", values)
for name, result in (("create_dataset(data=)", created), ("dataset[...] =       ", assigned), ("astype, then read    ", read)):
    print(name, result.astype(np.float32))
inf = float("inf")
assert created.tolist() == [65504, 65504, 65504, inf]
assert assigned.tolist() == [65504, inf, inf, inf]
assert read.tolist() == [65504, inf, inf, inf]
EOF
