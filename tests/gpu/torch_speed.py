"""Speed of torch's own kernels for loss scaling on a GPU, to compare headroom's with: GB/s beside a copy, and microseconds.

  python3 tests/gpu/torch_speed.py [MiB of fp16 gradients, by default 512]

Prints lines `name: value`. Figures are medians of 15 runs. Bytes are those that a kernel reads and writes.
"""
import sys

import torch

if not torch.cuda.is_available():
    print("torch sees no GPU")
    sys.exit(77)


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
    print(f"{name}: {n_bytes / time_of_one * 1e-3:.1f} GB/s, {time_of_one:.1f} us", flush=True)


print(f"torch: {torch.__version__}, {torch.cuda.get_device_name()}")
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
        for what, inverse in (("amp_unscale", nearly_one), ("amp_unscale_by_1", one)):
            if dtype == torch.bfloat16:  # which the kernel does not take
                continue
            unscale = torch._amp_foreach_non_finite_check_and_unscale_
            report(f"{what}.{name}", 2 * reads, lambda: unscale(gradients, found, inverse))
        report(f"foreach_div.{name}", 2 * reads, lambda: torch._foreach_div_(gradients, 1.0 + 2.0**-20))
        for order in (2, float("inf")):
            for precision in (torch.float, torch.double):
                what = f"foreach_norm_{order}_{str(precision)[6:]}"
                report(f"{what}.{name}", reads, lambda: torch._foreach_norm(gradients, order, dtype=precision))
        del gradients

# AdamW in one call. Bytes are counted as by `check speed`: gradients are read, weights and both moments are read and written.
# torch also writes the unscaled gradients, which is not counted. It may refuse mixed dtypes, which training in fp16 needs.
elements //= 4
for parts in (1, 1000):
    each = elements // parts // 8 * 8
    for dtype, state in ((torch.half, torch.float), (torch.float, torch.float), (torch.half, torch.half)):
        name = f"fused_adamw.{str(dtype)[6:]}_gradients.{str(state)[6:]}_weights.{parts}_tensors"
        try:
            gradients = [torch.randn(each, device="cuda", dtype=dtype) for _ in range(parts)]
            weights, means, squares = ([torch.zeros(each, device="cuda", dtype=state) for _ in range(parts)] for _ in range(3))
            steps = [torch.ones((), device="cuda") for _ in range(parts)]

            def step():
                torch._fused_adamw_(
                    weights, gradients, means, squares, [], steps, lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=1e-2, eps=1e-8,
                    amsgrad=False, maximize=False, grad_scale=one, found_inf=found)

            found.zero_()
            report(name, each * parts * (gradients[0].element_size() + 6 * weights[0].element_size()), step)
        except Exception as error:
            print(f"{name}: not run: {error}"[:150].replace("\n", " "), flush=True)
        gradients = weights = means = squares = None
