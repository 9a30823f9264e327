"""Speed of torch's own kernels for loss scaling on a GPU, to compare headroom's with: GB/s beside a copy, and microseconds.

  python3 tests/gpu/torch_speed.py [MiB of fp16 gradients, by default 512]

Prints lines `name: value`. Figures are medians of 15 runs. Bytes are those that a kernel reads and writes.
"""
import sys
import time

import torch

if not torch.cuda.is_available():
    print("torch sees no GPU")
    sys.exit(77)

INFINITY = float("inf")


def microseconds(work, runs=15):
    """The median time on the GPU, after three runs that are not counted."""
    times = []
    for _ in range(runs + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times[3:])[runs // 2]


def report(name, n_bytes, work):
    time_of_one = microseconds(work)
    print(f"{name}.GBps: {n_bytes / time_of_one * 1e-3:.1f}")
    print(f"{name}.us: {time_of_one:.1f}", flush=True)


def amp(gradients, found, inverse):
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)


def norms(gradients, order, dtype):
    return torch._foreach_norm(gradients, order, dtype=dtype)


def one_by_one(gradients):
    """What the adapter does with libtorch before 2.4: two norms of each tensor."""
    torch._foreach_mul_(gradients, 1.0)
    found = [torch.stack([torch.linalg.vector_norm(g, order, dtype=torch.double) for g in gradients]) for order in (INFINITY, 2)]
    return torch.stack([found[0].max(), found[1].norm()]).cpu()


def unscale(gradients):
    """What it does with libtorch 2.4 and later."""
    torch._foreach_div_(gradients, 1.0)
    return torch.stack(norms(gradients, INFINITY, torch.double)).max().cpu()


def measure(gradients):
    largest, lengths = (torch.stack(norms(gradients, order, torch.double)) for order in (INFINITY, 2))
    return torch.stack([largest.max(), lengths.norm()]).cpu()


print(f"torch: {torch.__version__}")
print(f"device: {torch.cuda.get_device_name()}")
elements = int(sys.argv[1] if len(sys.argv) > 1 else 512) << 19
source = torch.randn(elements, device="cuda", dtype=torch.half)
target = torch.empty_like(source)
report("copy.half", 4 * elements, lambda: target.copy_(source))
del source, target

found, one = torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")
nearly_one = torch.full((1,), 1.0 + 2.0**-20, device="cuda")
for parts in (1, 1000):
    for dtype in (torch.half, torch.bfloat16, torch.float):
        each = elements // parts // 8 * 8
        gradients = [torch.randn(each, device="cuda", dtype=dtype) for _ in range(parts)]
        reads = each * parts * gradients[0].element_size()
        name = f"{str(dtype)[6:]}.{parts}_tensors"
        report(f"amp_unscale.{name}", 2 * reads, lambda: amp(gradients, found, nearly_one))
        report(f"amp_unscale_by_1.{name}", 2 * reads, lambda: amp(gradients, found, one))
        report(f"foreach_div.{name}", 2 * reads, lambda: torch._foreach_div_(gradients, 1.0 + 2.0**-20))
        report(f"foreach_norm_2.{name}", reads, lambda: norms(gradients, 2, torch.float))
        report(f"foreach_norm_inf.{name}", reads, lambda: norms(gradients, INFINITY, torch.float))
        report(f"foreach_norm_2_double.{name}", reads, lambda: norms(gradients, 2, torch.double))
        report(f"foreach_norm_inf_double.{name}", reads, lambda: norms(gradients, INFINITY, torch.double))
        del gradients

# Small tensors: the time of a call on the host, until its result is there, and how many kernels it launches.
gradients = [torch.randn(1000, device="cuda") for _ in range(300)]
for name, work in (("one_by_one", one_by_one), ("unscale", unscale), ("measure", measure)):
    work(gradients)
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profile:
        work(gradients)
        torch.cuda.synchronize()
    print(f"{name}.300_tensors.launches: {sum(e.count for e in profile.key_averages() if 'LaunchKernel' in e.key)}")
    begin = time.perf_counter()
    for _ in range(20):
        work(gradients)
    print(f"{name}.300_tensors.us: {(time.perf_counter() - begin) / 20 * 1e6:.1f}", flush=True)

# Does a GPU divide as the CPU does? One tensor with gaps sends its list to kernels that multiply by 1 / scale.
values = torch.randn(1 << 20)
quotients = values / 1000.0
gaps = torch.randn(8, 4, device="cuda")[:, ::2]
alone, beside = values.cuda(), values.cuda()
torch._foreach_div_([alone], 1000.0)
torch._foreach_div_([beside, gaps], 1000.0)
print(f"foreach_div.elements_that_differ: {int((alone.cpu() != quotients).sum())}")
print(f"foreach_div_beside_gaps.elements_that_differ: {int((beside.cpu() != quotients).sum())}")
