"""Tests examples/python/headroom.py with numpy."""
import gc

import headroom
import numpy as np


def fails(error, text, call, *arguments):
    try:
        call(*arguments)
    except error as e:
        assert text in str(e), e
    else:
        raise AssertionError(f"no {error.__name__}: {text}")


# Strides, an empty array, a scalar, integers, memory that headroom must not touch.
array = np.arange(24, dtype=np.float32).reshape(4, 6)
scalar, integers = np.array(8.0), np.arange(3)
assert headroom.unscale([array[:, ::2], array[:0], scalar, integers], 2.0).max_abs == 11
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
fails(ValueError, "'b' is read-only", headroom.scale, {"a": sums, "b": constant}, 2.0)
assert (sums == 1.5).all()

fails(ValueError, "there is no policy 'tpyo'", headroom.LossScale, "tpyo")
fails(ValueError, "growth_interval", lambda: headroom.LossScale("dynamic", growth_interval=-1))
fails(ValueError, "[0, 1] do not fit into [0]", headroom.cast_into, [sums, sums], [sums])
fails(ValueError, "['p', 'q'] do not fit into ['q', 'p']", headroom.cast_into, {"p": sums, "q": sums}, {"q": sums, "p": sums})
fails(ValueError, "'b' has no __dlpack__: NoneType", headroom.measure, {"a": sums, "b": None})
fails(ValueError, "not 'cuda'", headroom.GradScaler, "cuda")
fails(ValueError, ">f4", headroom.measure, [np.ones(3, ">f4")])
fails(ValueError, "tensors[1]", headroom.measure, [sums, np.ones(3, complex)])
scaler = headroom.GradScaler(headroom.LossScale("dynamic", initial_scale=1024.0))
fails(RuntimeError, "update", scaler.update)


# The same arrays are described once. Others are noticed, even in the same list.
def step(*arrays):
    scaler.scale(1.0)
    assert not scaler.step(list(arrays)).skipped
    scaler.update()
    return scaler._remembered[0,]


grads = [np.full(3, 1024.0), np.full((2, 2), 1024.0)]
described = step(*grads)
assert step(*grads) is described and (grads[1] == 1 / 1024).all()
fails(ValueError, "resize", grads[0].resize, 1000)
other = np.full(3, 1024.0)
assert step(other, grads[1]) is not described and (other == 1).all()
described = step(grads[1])
grads[1].shape = 4
assert step(grads[1]) is not described


class Pointed:
    """An array with a data_ptr, as torch's tensors have. It moves."""

    def __init__(self):
        self.memory = np.full((2, 3), 1024.0)

    def __dlpack__(self):
        return self.memory.T.__dlpack__()

    def data_ptr(self):
        return self.memory.ctypes.data


class Negated(Pointed):
    """A tensor of torch whose negation is pending, such as the imaginary part of a conjugate."""

    def is_neg(self):
        return True


fails(ValueError, "'g' has its negation still to be done: call resolve_neg() first", headroom.measure, {"g": Negated()})
pointed = Pointed()
described = step(pointed)
gc.collect()
assert step(pointed) is described and (pointed.memory == 1 / 1024).all()
old = pointed.memory
pointed.memory = np.full((2, 3), 1024.0)
assert step(pointed) is not described and (pointed.memory == 1).all() and (old == 1 / 1024).all()

state = scaler.save()
copy = headroom.GradScaler(headroom.LossScale("torch"))
copy.load(state)
assert copy.save() == state and copy.scale(1.0) == 1024
