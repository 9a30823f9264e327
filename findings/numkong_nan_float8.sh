#!/usr/bin/env bash
# Package: numkong 7.8.6 (PyPI), on an x86-64 processor with AVX2.
# What it does: casts NaN to 448, the largest e4m3 number, and to Inf in e5m2, if its AVX2 kernels run. Its portable kernels make NaN, and
#   so does its scalar type. The sum of the e4m3 values is finite after the NaN is gone.
# Found in: numkong.Tensor.astype, which chooses kernels by processor. The script turns off the others with disable_capability.
# Guess: NaN stays NaN in a format that has one, and the processor decides the speed only.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q numkong==7.8.6 numpy==2.4.6
"$work/venv/bin/python" - <<'EOF'
import numkong, numpy as np

def keep_only(*names):
    for name, enabled in numkong.get_capabilities().items():
        if enabled and name not in names:
            numkong.disable_capability(name)
    return "+".join(name for name, enabled in numkong.get_capabilities().items() if enabled)

def cast(values, dtype):
    narrow = numkong.Tensor(np.array(values, np.float32)).astype(dtype)
    result = np.array(narrow.astype("float32"))
    print(f"  {values} as {dtype}: {result}, sum {numkong.sum(narrow)}")
    return result

values = [1.0, float("nan"), 2.0]
print("numkong", numkong.__version__, "with", keep_only("serial", "haswell"))
assert cast(values, "e4m3").tolist() == [1.0, 448.0, 2.0]
assert cast(values, "e5m2").tolist() == [1.0, float("inf"), 2.0]
print("numkong", numkong.__version__, "with", keep_only("serial"))
assert np.isnan(cast(values, "e4m3")).tolist() == [False, True, False]
assert np.isnan(cast(values, "e5m2")).tolist() == [False, True, False]
print("  scalar:", numkong.float8_e4m3(float("nan")))
assert np.isnan(float(numkong.float8_e4m3(float("nan"))))
EOF
