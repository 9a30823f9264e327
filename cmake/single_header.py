#!/usr/bin/env python3
"""single_header.py OUTPUT: writes all headers as one, except those that need a library: adapters/ and gpu/. Without git its first line has no commit."""
import pathlib, re, subprocess, sys

root = pathlib.Path(__file__).resolve().parent.parent
lines, done, conditional = [], set(), set()

def read(path):
    return (root / path).read_text(encoding="utf-8").splitlines()

def add(line, depth):  # depth counts the #ifs around the line
    name = next(iter(re.findall(r"^#include <(.+)>", line)), "")
    if name in conditional:
        sys.exit(f"{name} is included inside an #if, and a second time")
    if name.startswith("headroom/") and name not in done:
        for inner in read(f"include/{name}"):
            depth += inner.startswith("#if") - inner.startswith("#endif")
            add(inner, depth)
        (conditional if depth else done).update([name] * name.endswith(".hpp"))
    elif name not in done and line != "#pragma once":
        lines.append(line)
        done.update([name] * (name != "" and depth == 0))

headers = sorted(path.relative_to(root / "include").as_posix() for path in root.glob("include/headroom/**/*.hpp"))
for header in ["headroom/headroom.hpp", *headers]:
    if header not in conditional and not re.search("/adapters/|/gpu[/.]", header):
        add(f"#include <{header}>", 0)
version = ".".join(re.findall(r"#define HEADROOM_VERSION_\w+ (\d+)", "\n".join(lines)))
git = "git --git-dir=.git --work-tree=. describe --always --dirty --exclude='*' --abbrev=40"
commit = subprocess.run(git, shell=True, cwd=root, capture_output=True, text=True).stdout.strip()
first = f"// headroom {version}" + (f", commit {commit}" if commit else "")
text = "\n".join([first, *(f"// {line}".rstrip() for line in read("LICENSE")), "#pragma once", *lines, ""])
pathlib.Path(sys.argv[1]).write_bytes(re.sub(r"\n{3,}", "\n\n", text).encode())
