#!/usr/bin/env bash
# Packages: torch 2.15.0 and numpy 2.4.6 (PyPI).
# What it does: with a fused optimizer, ShardedGradScaler decides for each rank alone. An Inf on rank 0 makes that rank skip its step and
#   halve its scale, while rank 1 steps and doubles its own. With the same optimizer, not fused, both ranks skip.
# Found in: torch.distributed.fsdp.sharded_grad_scaler. Only its unscale_ combines the ranks; step does not call it for fused optimizers.
# Guess: the scaler for shards combines what the ranks found, whatever the optimizer.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.15.0 numpy==2.4.6  # some GB
cat >"$work/two_ranks.py" <<'PYTHON'
import sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


def train(rank, store, fused):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([weight], lr=0.1, fused=fused)
    scaler = ShardedGradScaler("cpu", init_scale=16.0, growth_interval=1)
    scaler.scale(torch.zeros(()))
    weight.grad = torch.full((2,), float("inf") if rank == 0 else 16.0)
    scaler.step(optimizer)
    scaler.update()
    found = [None, None]
    dist.all_gather_object(found, (scaler.get_scale(), weight.tolist() != [1.0, 1.0]))
    if rank == 0:
        print(*(f"rank {i}: scale {scale}, stepped {stepped};" for i, (scale, stepped) in enumerate(found)))
    expected = [(8.0, False), (32.0, True) if fused else (8.0, False)]
    assert found == expected, found
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    for fused in True, False:
        print("fused" if fused else "not fused", end=": ", flush=True)
        mp.spawn(train, (f"{sys.argv[1]}/{fused}", fused), 2)
PYTHON
"$work/venv/bin/python" "$work/two_ranks.py" "$work"
