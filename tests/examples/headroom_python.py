"""Tests examples/python/headroom.py with numpy."""
import gc
import os
import subprocess
import sys
import weakref

import headroom
import numpy as np


def fails(error, text, call, *arguments):
    try:
        call(*arguments)
    except error as e:
        assert text in str(e) and "headroom" not in str(e), e
    else:
        raise AssertionError(f"no {error.__name__}: {text}")


# Strides, an empty array, a scalar, integers, memory that headroom must not touch.
array = np.arange(24, dtype=np.float32).reshape(4, 6)
scalar, integers = np.array(8.0), np.arange(3)
assert headroom.unscale_in_place([array[:, ::2], array[:0], scalar, integers], 2.0).max_abs == 11
assert (array == np.arange(24).reshape(4, 6) / np.array([2, 1, 2, 1, 2, 1])).all()
assert scalar == 4 and (integers == np.arange(3)).all()
array[2, 3] = np.nan
place = headroom.find_nonfinite({"first": scalar, "second": array})
assert str(place) == 'NaN in "second"[15]' and place.nan_count == 1, place
assert headroom.find_nonfinite([scalar]) is None

# Read-only arrays are read, not written.
constant = np.ones(3, np.float16)
constant.flags.writeable = False
sums = np.ones(3)
assert headroom.measure([constant]).norm == 3**0.5
assert headroom.accumulate_into([constant], [sums], 2.0).finite and (sums == 1.5).all()
fails(ValueError, "'b' is read-only", headroom.scale_in_place, {"a": sums, "b": constant}, 2.0)
assert (sums == 1.5).all()

fails(ValueError, "growth_interval", lambda: headroom.LossScale("dynamic", growth_interval=-1))
fails(ValueError, "[0, 1] do not fit into [0]", headroom.cast_into, [sums, sums], [sums])
fails(ValueError, "['p', 'q'] do not fit into ['q', 'p']", headroom.cast_into, {"p": sums, "q": sums}, {"q": sums, "p": sums})
fails(ValueError, "'b' has no __dlpack__: NoneType", headroom.measure, {"a": sums, "b": None})
fails(ValueError, "not 'cuda'", headroom.GradScaler, "cuda")
fails(ValueError, ">f4", headroom.measure, [np.ones(3, ">f4")])
fails(ValueError, "the array 1 has a dtype", headroom.measure, [sums, np.ones(3, complex)])
scaler = headroom.GradScaler(headroom.LossScale("dynamic", initial_scale=1024.0))
fails(RuntimeError, "update", scaler.update)


# Wrong arguments are a ValueError with the names of Python.
def begun():
    begun = headroom.GradScaler()
    begun.scale(1.0)
    return begun


for wrong in (sums, (grad for grad in [sums]), None, 3):
    fails(ValueError, f"a list or a dict, not {type(wrong).__name__}", begun().step, wrong)
fails(ValueError, "'w' would become 0 in place, use step_into: ", begun().step, {"w": np.ones(3, np.float16)})
fails(ValueError, "the array 'p' and the array 'q' share elements", begun().unscale_, {"p": sums, "q": sums})
mixed = {"v": sums, "w": np.ones(3, complex)}
fails(ValueError, "the array 'w' has a dtype", headroom.cast_into, mixed, [sums, sums])
fails(ValueError, "the array 'w' has a dtype", headroom.cast_into, [sums, sums], mixed)
fails(ValueError, "differ at the array 'to[7]'", headroom.unscale_into, {"to[7]": sums}, {"to[7]": sums[:2]}, 2.0)
for optimizer in (None, [], "sgd", 1.5):
    fails(ValueError, f"optimizer cannot be {optimizer!r}", begun().step, [sums], optimizer)
fails(ValueError, "factor cannot be None", headroom.scale_in_place, [sums], None)
fails(ValueError, "loss_scale cannot be 'x'", headroom.unscale_in_place, [sums], "x")
fails(ValueError, "max_norm cannot be []", headroom.clip_by_global_norm, [sums], [])
fails(ValueError, "threads cannot be 1.5", headroom.measure, [sums], 1.5)
fails(ValueError, "saturate cannot be 'yes'", headroom.cast_into, [sums], [sums], "yes")
fails(ValueError, "adjust takes a report, not 3", headroom.LossScale().adjust, 3)
fails(ValueError, "there is no policy 'to[3]'", headroom.LossScale, "to[3]")
fails(ValueError, "there is no policy '3'", headroom.LossScale, 3)
fails(ValueError, "growth_interval is ", lambda: headroom.LossScale("torch", growth_interval=object()))
fails(ValueError, "'None'", begun().load, None)
assert (sums == 1.5).all()


class Foreign:
    """An array of another library: a capsule without a version of memory that others share, and attributes."""

    def __init__(self, memory, **attributes):
        self.memory = memory
        self.__dict__.update(attributes)

    def __dlpack__(self):
        return self.memory.__dlpack__()


shared = np.full(3, 65536.0, np.float32)
immutable, floats = Foreign(shared), np.zeros(3)
for verb, *arguments in [
        (begun().step, [immutable]), (begun().unscale_, [immutable]), (begun().unscale_and_clip_, [immutable], 1.0),
        (headroom.scale_in_place, [immutable], 2.0), (headroom.unscale_in_place, [immutable], 2.0), (headroom.clip_by_global_norm, [immutable], 1.0),
        (headroom.unscale_and_clip_in_place, [immutable], 2.0, 1.0), (headroom.unscale_into, [floats], [immutable], 2.0),
        (headroom.accumulate_into, [floats], [immutable], 2.0), (headroom.cast_into, [floats], [immutable]),
        (begun().step_into, [floats], [immutable])]:
    fails(ValueError, "the array 0 is read-only, as arrays of JAX, TensorFlow and MLX always are: use step_into", verb, *arguments)
assert headroom.measure([immutable]).max_abs == 65536 and (shared == 65536).all()
repeated = headroom.GradScaler(headroom.LossScale("constant", scale=65536.0))
for value in 1, 2:
    immutable.memory = np.full(3, 65536.0 * value, np.float32)
    repeated.scale(1.0)
    assert not repeated.step_into([immutable], [floats]).skipped and (floats == value).all()
    repeated.update()
deleted = Foreign(None)
fails(ValueError, "'w': 'NoneType' object has no attribute '__dlpack__'", headroom.measure, {"w": deleted})
parameter = Foreign(shared, requires_grad=True)
fails(ValueError, "'w' requires grad, as parameters do: pass the gradient, p.grad", begun().step, {"w": parameter})


# The same arrays are described once. Others are noticed, even in the same list.
def step(*arrays):
    scaler.scale(1.0)
    assert not scaler.step(list(arrays)).skipped
    scaler.update()
    return scaler._remembered["(0,)"]


grads = [np.full(3, 1024.0), np.full((2, 2), 1024.0)]
described = step(*grads)
assert step(*grads) is described and (grads[1] == 1 / 1024).all()
fails(ValueError, "resize", lambda: grads[0].resize(1000, refcheck=False))
other = np.full(3, 1024.0)
assert step(other, grads[1]) is not described and (other == 1).all()
described = step(grads[1])
grads[1].shape = 4
assert step(grads[1]) is not described
grads[1].flags.writeable = False
fails(ValueError, "the array 0 is read-only", step, grads[1])
scaler.abandon()


class Pointed(Foreign):
    """As torch's tensors. It moves."""

    def data_ptr(self):
        return self.memory.ctypes.data


negated = Pointed(np.ones(3), is_neg=lambda: True)  # such as the imaginary part of a conjugate
fails(ValueError, "'g' has its negation still to be done: call resolve_neg() first", headroom.measure, {"g": negated})
headroom.scale_in_place([Foreign(np.ones(0), data_ptr=lambda: 0)], 2.0)
pointed = Pointed(np.full((2, 3), 1024.0).T)
described = step(pointed)
gc.collect()
assert step(pointed) is described and (pointed.memory == 1 / 1024).all()
old = pointed.memory
pointed.memory = np.full((2, 3), 1024.0).T
assert step(pointed) is not described and (pointed.memory == 1).all() and (old == 1 / 1024).all()

# A scaler keeps no gradients alive.
grads = [np.full(3, 1024.0), Pointed(np.full((2, 3), 1024.0).T), Foreign(np.full(3, 1024.0))]
alive = [weakref.ref(grad) for grad in (*grads, grads[2].memory)]
step(*grads[:2])
scaler.scale(1.0)
assert not scaler.step_into(grads, [np.zeros(3), np.zeros((3, 2)), np.zeros(3)]).skipped
scaler.update()
del grads
gc.collect()
assert all(seen() is None for seen in alive)

state = scaler.save()
copy = headroom.GradScaler(headroom.LossScale("torch"))
copy.load(state)
assert copy.save() == state and copy.scale(1.0) == 1024

# The state as a dict, of a scaler and of a policy.
for original, other in ((scaler, headroom.GradScaler()), (headroom.LossScale("amax", initial_scale=8.0), headroom.LossScale())):
    state = original.state_dict()
    assert state["policy"] in ("dynamic", "amax") and state["loss_scale"] in (1024.0, 8.0), state
    other.load_state_dict(state)
    assert other.save() == original.save()
fails(ValueError, "'speed'", headroom.LossScale().load_state_dict, {**state, "speed": 1})
fails(ValueError, "", headroom.GradScaler().load_state_dict, {})

# A reducer replaces what a rank has found. Its exception is the cause of the scaler's.
sums = np.full(3, 1024.0)
for threads, reducer, skipped in (
        (2, lambda finite, max_abs, sum_of_squares, digest: (False, max_abs, sum_of_squares), True), (1, None, False)):
    scaler.set_threads(threads)
    scaler.set_reducer(reducer)
    scaler.scale(1.0)
    assert scaler.step([sums]).skipped == skipped
    scaler.update()
scaler.set_reducer(lambda *_: 1 / 0)
scaler.scale(1.0)
try:
    scaler.step([sums])
except RuntimeError as error:
    assert isinstance(error.__cause__, ZeroDivisionError)
else:
    raise AssertionError("the reducer failed, the step did not")
fails(ValueError, "threads", scaler.set_threads, -1)

# Without the library, the error says how to build it.
without = subprocess.run([sys.executable, "-c", "import headroom"], env={**os.environ, "HEADROOM_LIBRARY": "no/lib.so"}, capture_output=True, text=True)
assert without.returncode != 0 and "ImportError: no/lib.so" in without.stderr and "-DHEADROOM_C=ON" in without.stderr, without.stderr
