"""headroom's C interface (headroom.h) by ctypes: loss scaling for numpy, torch, and every array with __dlpack__.

    scaler = headroom.GradScaler(headroom.LossScale("torch", growth_interval=500))
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(loss(batch)).backward()
        step = scaler.step({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
        if step.skipped: print(step.nonfinite)  # inf in "body.weight"[13]
        else: optimizer.step()
        scaler.update()

Arrays come in a list, or in a dict with their names. Two dicts need the same keys in the same order. A wrong argument is a
ValueError, calls in the wrong order are a RuntimeError. The library is libheadroom.so.0, or the file that the environment
variable HEADROOM_LIBRARY names.
JAX, TensorFlow and MLX export their immutable arrays as DLPack capsules without a version, which have no read-only flag. Such
a capsule is read-only here, unless the array has data_ptr, as torch's, or flags.writeable, as numpy's.

A GradScaler remembers how it described the arrays of each optimizer, but keeps no array alive. It describes them again if a
call has other objects, if the data_ptr(), flags.writeable, shape, strides or dtype of one has changed, or if one has neither
data_ptr nor flags.writeable.
"""
import collections
import ctypes
import json
import os
import re
import weakref
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_uint64), ("dtype", c_uint32), ("ndim", c_int32), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64))]

class Sized(ctypes.Structure):
    def __init__(self):
        super().__init__(struct_size=ctypes.sizeof(self))

    def __repr__(self):
        return str({name: getattr(self, name) for name, _ in self._fields_[1:]})

class Report(Sized):
    _fields_ = [("struct_size", c_uint32), ("finite", c_int32), ("max_abs", c_double), ("norm", c_double)]

class RawPlace(Sized):
    _fields_ = [("struct_size", c_uint32), ("is_nan", c_int32), ("tensor", c_uint64), ("index", c_uint64),
                ("nan_count", c_uint64), ("inf_count", c_uint64)]

class RawStep(Sized):
    _fields_ = [("struct_size", c_uint32), ("skipped", c_int32), ("reason", c_int32), ("loss_scale", c_float),
                ("report", Report), ("nonfinite", RawPlace)]

try:
    c = ctypes.CDLL(os.environ.get("HEADROOM_LIBRARY", "libheadroom.so.0"))
except OSError as error:
    raise ImportError(f"""{error}
headroom.py needs headroom's C library. In a checkout of headroom, build it by
    cmake -S . -B build/c -DCMAKE_BUILD_TYPE=Release -DHEADROOM_C=ON -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=OFF
    cmake --build build/c
and set the environment variable HEADROOM_LIBRARY to the path of build/c/libheadroom.so.0""") from None
c.headroom_last_error.restype = c_char_p
c.headroom_loss_scale_get.restype = c.headroom_grad_scaler_get_scale.restype = c_float
if c.headroom_abi() != 1:
    raise ImportError("headroom.py needs headroom's ABI 1")

_errors = []  # of a reducer, in the call that runs

def _bind(function, *parameters):
    """`function`, with errors that use the names of this module."""
    def call(*arguments):
        try:
            status = function(*arguments)
        except ctypes.ArgumentError as error:
            wrong = int(re.search("[0-9]+", str(error))[0]) - 1
            raise ValueError(f"{parameters[wrong][0]} cannot be {arguments[wrong]!r}") from None
        if status != 0:
            names = [argument.names for argument in arguments if hasattr(argument, "names")]
            message = c.headroom_last_error().decode(errors="replace").removeprefix("headroom: ")
            message = re.sub(r"(the source's )?\b(tensors|grads|from|to)\[(\d+)\]", lambda match: match[0] if not names else
                             f"the array {names[-1 if match[2] == 'to' else 0][int(match[3])]!r}", message)
            raise {1: ValueError, 3: MemoryError}.get(status, RuntimeError)(
                message.replace("headroom_grad_scaler_", "")) from (_errors.pop() if _errors else None)
    function.argtypes = [kind for _, kind in parameters]
    return call

# All functions of headroom.h. Errors name the parameters that users pass.
_kinds = {"p": ("", c_void_p), "n": ("", c_size_t), "s": ("", c_char_p), "u": ("optimizer", c_uint64),
          "i": ("threads", c_int32), "b": ("saturate", c_int32), "f": ("loss_scale", c_float), "d": ("factor", c_double),
          "m": ("max_norm", c_double), "r": ("report.finite", c_int32), "x": ("report.max_abs", c_double)}
for _name, _parameters in {
        "from_dlpack": "pp", "scale_in_place": "pndi", "unscale_in_place": "pnfip",
        "unscale_into": "ppnfip", "accumulate_into": "ppnfip",
        "unscale_and_clip_in_place": "pnfmip",
        "clip_by_global_norm": "pnmip", "measure": "pnip", "cast": "ppnbi", "find_nonfinite": "pnipp",
        "quantize": "ppnppip", "dequantize": "ppnpi", "loss_scale_make": "ssp", "loss_scale_adjust": "prx",
        "loss_scale_save": "ppp", "loss_scale_load": "sp", "grad_scaler_make": "pp", "grad_scaler_set_threads": "pi",
        "grad_scaler_set_reducer": "ppp", "grad_scaler_scale": "pdp", "grad_scaler_unscale": "pupnp",
        "grad_scaler_unscale_and_clip": "pupnmp", "grad_scaler_step": "pupnp", "grad_scaler_step_into": "puppnp",
        "grad_scaler_update": "p", "grad_scaler_abandon": "p", "grad_scaler_save": "ppp", "grad_scaler_load": "ps"}.items():
    setattr(c, "headroom_" + _name, _bind(c["headroom_" + _name], *map(_kinds.get, _parameters)))

_is_capsule = ctypes.PYFUNCTYPE(c_int32, ctypes.py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_dtypes = {"float16": 0x210, "float32": 0x220, "float64": 0x240, "bfloat16": 0x410, "float8_e4m3fn": 0xA08,
           "float8_e5m2": 0xC08}

def _describe(name, array, tensor):
    """Fills `tensor`. Returns an object that keeps it valid, and whether the array is read-only."""
    if not hasattr(array, "__dlpack__"):
        raise ValueError(f"the array {name!r} has no __dlpack__: {type(array).__name__}")
    if getattr(array, "requires_grad", False):
        raise ValueError(f"the array {name!r} requires grad, as parameters do: pass the gradient, p.grad")
    if getattr(array, "is_neg", bool)():  # torch's; DLPack would drop the sign
        raise ValueError(f"the array {name!r} has its negation still to be done: call resolve_neg() first")
    try:
        try:
            capsule = array.__dlpack__(max_version=(1, 0), copy=False)
        except TypeError:
            capsule = array.__dlpack__()  # the standard before DLPack 1.0
        # The capsule is not consumed, so it releases the array itself.
        is_versioned = not _is_capsule(capsule, b"dltensor")
        managed = _pointer_of(capsule, b"dltensor_versioned" if is_versioned else b"dltensor")
        c.headroom_from_dlpack(managed + 32 * is_versioned, byref(tensor))  # after version, context, deleter and flags
    except Exception as error:  # each library has its own
        if isinstance(error, BufferError) and hasattr(array, "__array_interface__"):
            return _describe_numpy(name, array, tensor)
        raise ValueError(f"the array {name!r}: {error}") from error
    is_writable = hasattr(array, "data_ptr") or _memory(array)  # of a capsule that cannot say so
    return capsule, c_uint64.from_address(managed + 24).value & 1 if is_versioned else not is_writable

def _describe_numpy(name, array, tensor):
    """What numpy does not export: the dtypes of ml_dtypes, and before numpy 2.1 read-only arrays."""
    if array.dtype.name not in _dtypes or not array.dtype.isnative or any(s % array.itemsize for s in array.strides):
        raise ValueError(f"cannot use the array {name!r} of {array.dtype} with strides of {array.strides} bytes")
    tensor.data, is_read_only = array.__array_interface__["data"]
    tensor.size, tensor.dtype, tensor.ndim = array.size, _dtypes[array.dtype.name], array.ndim
    tensor.shape = (c_int64 * array.ndim)(*array.shape)
    tensor.strides = (c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
    return array, is_read_only

def _items(arrays):
    if hasattr(arrays, "__dlpack__") or not hasattr(arrays, "__len__"):
        raise ValueError(f"the arrays must be a list or a dict, not {type(arrays).__name__}")
    return arrays.items() if isinstance(arrays, dict) else enumerate(arrays)

def _memory(array):
    """Changes if the memory moves or becomes read-only; None: unknown. numpy does not resize arrays with weak references."""
    return array.data_ptr() if hasattr(array, "data_ptr") else getattr(getattr(array, "flags", None), "writeable", None)

def _layout(array):
    """What must not change for a description to stay right."""
    strides = array.stride() if hasattr(array, "stride") else getattr(array, "strides", None)
    return _memory(array), getattr(array, "shape", None), strides, getattr(array, "dtype", None)

class Arrays:
    """A list or dict of arrays as the library sees them."""
    def __init__(self, arrays, keeps=True):
        self.names, self.are_named = [name for name, _ in _items(arrays)], isinstance(arrays, dict)
        self.tensors = (Tensor * len(arrays))()
        self.tensors.names, self.tensors.kept, self.seen, self.read_only = self.names, [], [], []
        for (name, array), tensor in zip(_items(arrays), self.tensors):
            kept, is_read_only = _describe(name, array, tensor)
            self.read_only += [name] * is_read_only
            if keeps or _memory(array) is None:
                self.tensors.kept.append(kept)
            else:  # keeps the shape, but not the memory
                self.seen.append((weakref.ref(array), _layout(array)))
                tensor.shape = (c_int64 * tensor.ndim)(*tensor.shape[:tensor.ndim])
                tensor.strides = tensor.strides and (c_int64 * tensor.ndim)(*tensor.strides[:tensor.ndim])

    def describes(self, arrays):
        items = _items(arrays)
        return len(arrays) == len(self.seen) and all(name == key and seen() is array and layout == _layout(array) for
                                                     (seen, layout), name, (key, array) in zip(self.seen, self.names, items))

    def list(self, writes=True):
        if writes and self.read_only:
            raise ValueError(f"the array {self.read_only[0]!r} is read-only, as arrays of JAX, TensorFlow and "
                             "MLX always are: use step_into or unscale_into, which write to other arrays, such as numpy's")
        return self.tensors, len(self.tensors)

    def into(self, to):
        if len(self.names) != len(to.names) or (self.are_named and to.are_named and self.names != to.names):
            raise ValueError(f"the arrays {self.names} do not fit into {to.names}")
        return self.tensors, *to.list()

Step = collections.namedtuple("Step", "skipped loss_scale report nonfinite")

class Place(collections.namedtuple("Place", "array index is_nan nan_count inf_count")):
    """The first Inf or NaN: the key or number of its array, and the index in it, in the order of memory."""
    def __str__(self):
        return f"{'NaN' if self.is_nan else 'inf'} in {json.dumps(self.array)}[{self.index}]"

def _place(raw, arrays):
    if raw.nan_count + raw.inf_count == 0:
        return None
    return Place(list(_items(arrays))[raw.tensor][0], raw.index, bool(raw.is_nan), raw.nan_count, raw.inf_count)

# Verbs. They read `source` and write `to`, which are lists or dicts.

def _found(function, *arguments):
    report = Report()
    function(*arguments, byref(report))
    return report
def scale_in_place(to, factor, threads=1):
    c.headroom_scale_in_place(*Arrays(to).list(), factor, threads)
def unscale_in_place(to, loss_scale, threads=1):
    return _found(c.headroom_unscale_in_place, *Arrays(to).list(), loss_scale, threads)
def unscale_into(source, to, loss_scale, threads=1):
    return _found(c.headroom_unscale_into, *Arrays(source).into(Arrays(to)), loss_scale, threads)
def accumulate_into(source, to, loss_scale, threads=1):
    return _found(c.headroom_accumulate_into, *Arrays(source).into(Arrays(to)), loss_scale, threads)
def unscale_and_clip_in_place(to, loss_scale, max_norm, threads=1):
    return _found(c.headroom_unscale_and_clip_in_place, *Arrays(to).list(), loss_scale, max_norm, threads)
def clip_by_global_norm(to, max_norm, threads=1):
    return _found(c.headroom_clip_by_global_norm, *Arrays(to).list(), max_norm, threads)
def measure(source, threads=1):
    return _found(c.headroom_measure, *Arrays(source).list(writes=False), threads)
def cast_into(source, to, saturate=False, threads=1):
    c.headroom_cast(*Arrays(source).into(Arrays(to)), saturate, threads)
def find_nonfinite(source, threads=1):
    raw = RawPlace()
    c.headroom_find_nonfinite(*Arrays(source).list(writes=False), threads, byref(raw), byref(c_int32()))
    return _place(raw, source)

_Reducer = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(c_int32), POINTER(c_double), POINTER(c_double), c_uint64)

class _Handle:
    def __init__(self, kind, *arguments):
        self._kind, self._as_parameter_ = kind, c_void_p()
        getattr(c, f"headroom_{kind}_make")(*arguments, byref(self._as_parameter_))
        weakref.finalize(self, getattr(c, f"headroom_{kind}_free"), self._as_parameter_)

    def save(self):
        """The state as text."""
        size, save = c_size_t(), getattr(c, f"headroom_{self._kind}_save")
        save(self, None, byref(size))
        text = ctypes.create_string_buffer(size.value)
        save(self, text, byref(size))
        return text.value.decode()

    def state_dict(self):
        """The state as a dict of numbers and names."""
        return {key: json.loads(value) for key, value in (line.split(" = ", 1) for line in self.save().splitlines())}

    def load_state_dict(self, state):
        self.load(_text(state))

def _text(settings):
    return "\n".join(f"{key} = {json.dumps(value, default=repr)}" for key, value in settings.items())

class LossScale(_Handle):
    """A policy by its name and settings, such as LossScale("torch", growth_interval=500)."""
    def __init__(self, name="dynamic", **settings):
        super().__init__("loss_scale", str(name).encode(), _text(settings).encode())

    def load(self, text):
        """Continues with the policy and the settings that were saved."""
        loaded = c_void_p()
        c.headroom_loss_scale_load(str(text).encode(), byref(loaded))
        self._as_parameter_.value, loaded.value = loaded.value, self._as_parameter_.value
        c.headroom_loss_scale_free(loaded)

    def get(self):
        return c.headroom_loss_scale_get(self)

    def adjust(self, report):
        if not hasattr(report, "finite"):
            raise ValueError(f"adjust takes a report, not {report!r}")
        c.headroom_loss_scale_adjust(self, getattr(report, "finite", None), getattr(report, "max_abs", None))

class GradScaler(_Handle):
    """torch.amp.GradScaler for lists and dicts of gradients. Optimizers are numbers."""
    def __init__(self, policy=None, threads=1):
        if not isinstance(policy, (LossScale, type(None))):
            raise ValueError(f"the policy must be a LossScale, not {policy!r}")
        super().__init__("grad_scaler", policy)
        self.set_threads(threads)
        self._remembered = {}

    def set_threads(self, threads):
        c.headroom_grad_scaler_set_threads(self, threads)

    def set_reducer(self, reducer):
        """reducer(finite, max_abs, sum_of_squares, digest) returns the first three for all ranks, as headroom.h says. None
        removes it."""
        def call(_, finite, max_abs, sum_of_squares, digest):
            try:
                finite[0], max_abs[0], sum_of_squares[0] = reducer(bool(finite[0]), max_abs[0], sum_of_squares[0], digest)
            except BaseException as error:  # ctypes would ignore it
                _errors.append(error)
                return 4
            return 0
        function = _Reducer(call) if reducer else None
        c.headroom_grad_scaler_set_reducer(self, ctypes.cast(function, c_void_p), None)
        self._reducer = function  # lives as long as the scaler

    def _arrays(self, arrays, *key):
        key = str(key)  # the library checks the type of an optimizer
        found = self._remembered.pop(key, None)
        if found is None or not found.describes(arrays):
            found = Arrays(arrays, keeps=False)
        if not found.tensors.kept:
            self._remembered[key] = found
        return found

    def scale(self, loss):
        """The scaled loss. A hand-written backward starts from scale(1.0)."""
        factor = c_double()
        c.headroom_grad_scaler_scale(self, 1.0, byref(factor))
        return loss * factor.value

    def get_scale(self):
        return c.headroom_grad_scaler_get_scale(self)

    def unscale_(self, grads, optimizer=0):
        return _found(c.headroom_grad_scaler_unscale, self, optimizer, *self._arrays(grads, optimizer).list())

    def unscale_and_clip_(self, grads, max_norm, optimizer=0):
        tensors = self._arrays(grads, optimizer).list()
        return _found(c.headroom_grad_scaler_unscale_and_clip, self, optimizer, *tensors, max_norm)

    def step(self, grads, optimizer=0):
        """Unscales the gradients unless that has been done. If the Step says so, the caller steps its optimizer."""
        return self._step(c.headroom_grad_scaler_step, grads, optimizer, self._arrays(grads, optimizer).list())

    def step_into(self, source, to, optimizer=0):
        """The same for gradients of any dtype. The unscaled ones go into `to`."""
        tensors = self._arrays(source, optimizer).into(self._arrays(to, optimizer, "to"))
        return self._step(c.headroom_grad_scaler_step_into, source, optimizer, tensors)

    def _step(self, function, grads, optimizer, tensors):
        raw = RawStep()
        function(self, optimizer, *tensors, byref(raw))
        return Step(bool(raw.skipped), raw.loss_scale, raw.report, _place(raw.nonfinite, grads))

    def update(self):
        c.headroom_grad_scaler_update(self)

    def abandon(self):
        c.headroom_grad_scaler_abandon(self)

    def load(self, text):
        """Continues with the policy and the settings that were saved."""
        c.headroom_grad_scaler_load(self, str(text).encode())
