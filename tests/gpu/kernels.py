#!/usr/bin/env python3
"""kernels.py LIMITS LOG [SASS...]: prints what ptxas made of the kernels. Ends with 1 if it is more than LIMITS allows.

LOG is the output of `nvcc -Xptxas -v`, SASS that of `nvdisasm -c`. The rows of LIMITS:

    ARCHITECTURE KERNEL registers|spilled MOST                  if several match, the last counts
    ARCHITECTURE FUNCTION loop MOST ELEMENTS NAME OPCODE:COUNT...

The instructions of a loop are those of the shortest way around the outermost loop that has a way with COUNT of each OPCODE. 8+ are 8
or more. So loads, stores and arithmetic choose the dtype, and the way of aligned and finite elements. A way calls no function. If many
ways differ only in what no row counts exactly, it takes minutes to find the shortest.
"""
import fnmatch
import heapq
import operator
import re
import subprocess
import sys


def short_names(mangled):
    """unscale_group<binary16,binary32,true>: without result, namespaces, parameters and spaces."""
    text = "\n".join(name.rsplit("$", 1)[-1] for name in mangled)
    names = subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    return [re.sub(r"^.*?[^,] (?=\w)", "", re.sub(r"\w+::", "", name).split("(")[0]).replace(" ", "") for name in names]


def resources(log):
    """[architecture, kernel, {what: value}] of each kernel."""
    found = re.findall(r"entry function '(\S+)' for '(\w+)'\n.*\n.*, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
                       r".*Used (\d+) registers", log)
    return sorted([arch, name, {"registers": int(registers), "spilled": int(stores) + int(loads)}]
                  for name, (_, arch, stores, loads, registers) in zip(short_names(row[0] for row in found), found))


def functions(sass):
    """[architecture, function, blocks] of each function. A block is its opcodes, and the numbers of those that may follow it."""
    found, labels, blocks, block = {}, {}, None, None
    for line in sass.splitlines():
        label = re.match(r"(?!\.text\.)(\S+):$", line)
        code = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(@\S+\s+)?([A-Z]\w*)(\S*)\s*(.*);", line)
        if label and not label[1].startswith(".L_"):
            blocks, block = found.setdefault(label[1], []), None
        if blocks is not None and (label or (code and block is None)):
            if block is not None:
                block[1].append(len(blocks))
            if label:
                labels[label[1]] = len(blocks)
            block = ([], [])
            blocks.append(block)
        if blocks is not None and code:
            predicate, opcode, suffix, operands = code.groups()
            block[0].append(opcode + suffix)
            if opcode in ("BRA", "BRX", "CALL", "EXIT", "RET") and suffix != ".DIV":  # the threads of a warp do not part
                is_jump = opcode in ("BRA", "BRX")
                if is_jump:
                    block[1].extend(re.findall(r"\.L_x_\d+", operands))
                if predicate or (is_jump and not operands.startswith("`")):  # another condition
                    block[1].append(len(blocks))
                block = None
    for blocks in found.values():
        for block in blocks:
            block[1][:] = [labels.get(label, label) for label in block[1]]
    arch = re.search(r"\.target\s+(\w+)", sass)[1]
    return [[arch, name, blocks] for name, blocks in zip(short_names(found), found.values())]


def shortest_way(blocks, wanted, longest):
    """By Dijkstra's algorithm. A node is a block, and how many of each opcode were passed before it. None if over `longest`."""
    most = [int(count.rstrip("+")) for count in wanted.values()]
    counts = [[sum(fnmatch.fnmatchcase(opcode, pattern) for opcode in opcodes) for pattern in wanted] for opcodes, _ in blocks]
    for head in sorted({to for at, (_, following) in enumerate(blocks) for to in following if to <= at}):
        ways, seen = [(0, head, (0,) * len(most))], set()
        while ways:
            length, at, passed = heapq.heappop(ways)
            if at == head and length > 0 and list(passed) == most:
                return length
            if (at, passed) in seen or length > longest:
                continue
            seen.add((at, passed))
            then = tuple(map(operator.add, passed, counts[at]))
            then = tuple(min(n, limit) if count.endswith("+") else n for n, limit, count in zip(then, most, wanted.values()))
            if all(map(operator.le, then, most)):
                for to in blocks[at][1]:
                    heapq.heappush(ways, (length + len(blocks[at][0]), to, then))
    return None


def main(limits, log, *listings):
    rows = [line.split() for line in open(limits) if line.strip() and not line.startswith("#")]
    kernels = resources(open(log).read())
    code = [function for path in listings for function in functions(open(path).read())]
    faults = []

    def select(row, of):
        return [each for each in of if fnmatch.fnmatchcase(each[0], row[0]) and fnmatch.fnmatchcase(each[1], row[1])]

    for kernel in kernels:
        arch, name, values = kernel
        size = sum(len(opcodes) for a, n, blocks in code if (a, n) == (arch, name) for opcodes, _ in blocks)
        print(f"{arch:6} {values['registers']:3} registers {values['spilled']:3} bytes spilled {size or '-':>5} instructions  {name}")
        most = {row[2]: int(row[3]) for row in rows if select(row, [kernel])}
        faults += [f"{arch} {name}: {what} {value}, more than {most[what]}" for what, value in values.items()
                   if value > most.get(what, value)]
    for row in rows:
        found = select(row, kernels)
        if row[2] == "loop":
            most, elements, name = int(row[3]), int(row[4]), row[5]
            wanted = dict(word.rsplit(":", 1) for word in row[6:])
            ways = [(arch, function, shortest_way(blocks, wanted, most * 3 // 2)) for arch, function, blocks in select(row, code)]
            found = [way for way in ways if way[2] is not None]
            for arch, function, way in found:
                print(f"{arch:6} {way * 512 / elements:5.1f} instructions for 512 elements, {way:4} for {elements:4}  {name}: {function}")
                faults += [f"{arch} {function}, {name}: {way} instructions, more than {most}"] if way > most else []
        if not found and (code or row[2] != "loop"):
            faults.append("nothing matches " + " ".join(row))
    if not code:
        print("instructions: not counted, nvdisasm is missing")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
