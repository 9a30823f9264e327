#!/usr/bin/env bash
# Packages: ml_dtypes 0.6.0 and numpy 2.4.6 (PyPI).
# What it does: numpy.sort leaves the numbers of a bfloat16 or float8 array out of order if one element is NaN, and numpy.unique keeps
#   repeated numbers. The types compare NaN as C does, while numpy's own floats put NaN last.
# Found in: a threshold that keeps the largest gradients, taken from a sorted array.
# Guess: as for numpy's float16: the numbers in order, then NaN. numpy.max does return NaN for both.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q ml_dtypes==0.6.0 numpy==2.4.6
"$work/venv/bin/python" -W ignore - <<'EOF'
import ml_dtypes, numpy as np

print("ml_dtypes", ml_dtypes.__version__, "numpy", np.__version__)
values = [3, np.nan, 1, 2, 3]
for dtype in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
    array = np.array(values, dtype)
    ordered = [float(v) for v in np.sort(array)]
    unique = [float(v) for v in np.unique(array)]
    print(f"{dtype.__name__}: {values} sorted {ordered}, unique {unique}, max {np.max(array)}")
    numbers = [v for v in ordered if v == v]
    assert (numbers == [1, 2, 3, 3]) == (dtype is np.float16)
    assert (unique.count(3) == 1) == (dtype is np.float16)
    assert np.isnan(np.max(array))
EOF
