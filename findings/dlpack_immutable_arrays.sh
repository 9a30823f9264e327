#!/usr/bin/env bash
# Packages: jax 0.10.2, mlx 0.32.4, numpy 2.4.6 (PyPI).
# What it does: arrays of JAX and MLX cannot be changed, but their DLPack capsules do not say so. `__dlpack__(max_version=(1, 0))`
#   returns a capsule without a version, which has no place for the flag "read-only". numpy returns one with a version. numpy's own
#   view of an MLX array depends on the function: that of from_dlpack is read-only, that of asarray changes the array.
# Found in: jax.Array.__dlpack__, mlx.core.array.__dlpack__ and its buffer protocol.
# Guess: a library whose arrays are immutable and that accepts max_version sets the flag, and no view of numpy's can be written.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 'mlx[cpu]==0.32.4' numpy==2.4.6
JAX_PLATFORMS=cpu "$work/venv/bin/python" - <<'PYTHON'
import jax, jax.numpy as jnp, mlx.core as mx, numpy as np

def name_of(capsule):
    return repr(capsule).split('"')[1]

arrays = {"numpy": np.ones(4, np.float32), "jax": jnp.ones(4), "mlx": mx.ones(4)}
names = {library: name_of(array.__dlpack__(max_version=(1, 0))) for library, array in arrays.items()}
print("jax", jax.__version__, "mlx", mx.__version__, "numpy", np.__version__)
print("capsules for max_version=(1, 0):", names)
immutable = arrays["mlx"]
mx.eval(immutable)
from_dlpack, asarray = np.from_dlpack(immutable), np.asarray(immutable)
print("writeable: from_dlpack", from_dlpack.flags.writeable, "asarray", asarray.flags.writeable)
asarray[:] = 7
print("the MLX array after asarray(array)[:] = 7:", immutable.tolist())
assert names == {"numpy": "dltensor_versioned", "jax": "dltensor", "mlx": "dltensor"}
assert not from_dlpack.flags.writeable and asarray.flags.writeable
assert immutable.tolist() == [7, 7, 7, 7]
PYTHON
