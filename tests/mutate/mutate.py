"""Mutates the headers, builds the tests with them, runs each mutant, and prints which survived. See run.sh."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutants
from programs import Tests, read_programs

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
# The effect of these depends on the CPU, and a test runs on one.
SKIPPED_FILES = {f"kernel/isa/{p.name}" for p in (PROJECT / "include/headroom/kernel/isa").glob("*.hpp")} - {
    f"kernel/isa/{name}.hpp" for name in ("common", "scalar")
}
GOAL = 0.89  # measured; half of the rest changes nothing that a test can see: speed, or a value that is overwritten


def write_if_other(path, data):
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def remove_others(copy, original):
    """Files of a copied folder that the original no longer has."""
    for path in copy.rglob("*"):
        if path.is_file() and not (original / path.relative_to(copy)).exists():
            path.unlink()


def copy_project(to):
    """Copies the sources of the tests, and the headers if there are none yet. Unchanged files are not built again."""
    if not (to / "include").exists():
        shutil.copytree(PROJECT / "include", to / "include")
    for part in ("CMakeLists.txt", "cmake", "src", "tests", "examples", "docs"):
        files = [PROJECT / part] if (PROJECT / part).is_file() else [p for p in (PROJECT / part).rglob("*") if p.is_file()]
        for file in files:
            write_if_other(to / file.relative_to(PROJECT), file.read_bytes())
        remove_others(to / part, PROJECT / part)


def configure(build):
    flags = "-O0 -w -Wno-narrowing"  # a constant that a mutant may change is not a constant
    subprocess.run(
        ["cmake", "-S", build / "source", "-B", build / "tests", "-G", "Ninja", "-DCMAKE_CXX_COMPILER=g++",
         f"-DCMAKE_CXX_FLAGS={flags}", "-DHEADROOM_EXHAUSTIVE_TEST_FLAGS=-O1", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
         "-DHEADROOM_BUILD_EXAMPLES=OFF"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    commands = json.loads((build / "tests/compile_commands.json").read_text())
    words = [word for command in commands for word in command["command"].replace("-isystem ", "-isystem").split()]
    return sorted({word for word in words if word.startswith("-isystem")})


def find(include, flags):
    headers = sorted(path.relative_to(include).as_posix() for path in include.rglob("*.hpp"))
    available = [h for h in headers if not h.startswith("adapters/") or can_include(h, include, flags)]
    finder = mutants.Finder(include, SKIPPED_FILES)
    return finder.find(mutants.parse(available, include, flags)), finder.sources


def can_include(header, include, flags):
    command = ["g++", "-std=c++17", "-E", "-x", "c++", "-", "-o", os.devnull, f"-I{include.parent}", *flags]
    return not subprocess.run(command, input=f"#include <headroom/{header}>", text=True, stderr=subprocess.DEVNULL).returncode


def write_headers(to, include, sources, numbered):
    write_if_other(to / "headroom_mutant.hpp", (HERE / "headroom_mutant.hpp").read_bytes())
    for path in include.rglob("*"):
        if path.is_file():
            file = path.relative_to(include).as_posix()
            data = path.read_bytes()
            of_file = [(number, mutant) for number, mutant in numbered.items() if mutant.file == file]
            if of_file:
                data = mutants.mutated_source(sources[file], of_file).encode(mutants.ONE_BYTE)
            write_if_other(to / "headroom" / file, data)
    remove_others(to / "headroom", include)


def targets_of(modules, build):
    if not modules:
        return []
    listed = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, stdout=subprocess.PIPE, text=True)
    is_of_module = re.compile(f"(test_({'|'.join(modules)})(_[a-z_]+)?|tests/({'|'.join(modules)})/.*all): phony")
    return [line.split(":")[0] for line in listed.stdout.split("\n") if is_of_module.fullmatch(line)]


def in_errors(output, include):
    """The numbers of the mutants in lines with errors; if there are none, in lines whose instantiation has one."""
    lines = {}
    for kind in (" error", "   required from"):
        numbers = set()
        for file, line in set(re.findall(re.escape(str(include)) + r"/([^:\n]+):(\d+):\d+:" + kind, output)):
            if file not in lines:
                lines[file] = (include / file).read_text(encoding=mutants.ONE_BYTE).split("\n")
            numbers.update(map(int, re.findall(r"headroom_mutant\((\d+)\)", lines[file][int(line) - 1])))
        if numbers:
            break
    return numbers


def build_tests(build, targets, write, numbered):
    """Leaves out mutants that do not compile: the arguments of templates are not known before."""
    while True:
        write(numbered)
        result = subprocess.run(["ninja", "-C", build / "tests", "-k", "0", *targets], stdout=subprocess.PIPE, text=True)
        if result.returncode == 0:
            return
        bad = in_errors(result.stdout, build / "source/include/headroom") & numbered.keys()
        if not bad:
            sys.exit(result.stdout[-5000:] + "\nThe tests do not compile with the mutated headers.")
        print("\n".join(sorted({line for line in result.stdout.split("\n") if " error: " in line})))
        for number in sorted(bad):
            mutant = numbered.pop(number)
            print(f"does not compile: {mutant.file}:{mutant.line}: {mutant.original} -> {mutant.mutated}", flush=True)


def run_all(tests, numbered):
    """The numbers of the mutants that survive."""
    survivors, done = [], 0

    def run(number):
        nonlocal done
        mutant = numbered[number]
        noticed = tests.notice(number, mutant.module) or tests.notice_in_constants(number, mutant.file)
        done += 1
        if done % 50 == 0:
            print(f"{done} of {len(numbered)} mutants run", flush=True)
        return number, noticed

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, noticed in pool.map(run, numbered):
            if not noticed:
                survivors.append(number)
    return survivors


def shown(text):
    return text.encode(mutants.ONE_BYTE).decode()


def report(numbered, survivors, reached):
    modules = sorted({mutant.module for mutant in numbered.values()})
    survived = {number: numbered[number] for number in survivors}
    for number, mutant in sorted(survived.items(), key=lambda item: (item[1].file, item[1].line)):
        how = "" if number in reached else " (no test comes here)"
        print(f"\n{mutant.file}:{mutant.line}{how}\n  {shown(mutant.context)}")
        print(f"  {shown(mutant.original)} -> {shown(mutant.mutated)}")
    print(f"\n{'module':10} {'mutants':>8} {'killed':>8} {'survived':>8}")
    for module in [*modules, "all"]:
        of_module = [number for number, mutant in numbered.items() if module in (mutant.module, "all")]
        lost = sum(number in survived for number in of_module)
        print(f"{module:10} {len(of_module):8} {len(of_module) - lost:8} {lost:8}")
    share = 1 - len(survived) / max(1, len(numbered))
    print(f"{100 * share:.1f} % are noticed.")
    return share >= GOAL


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help="modules or headers, such as tree ops/run.hpp")
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--build", type=Path, default=PROJECT / "build/mutate")
    options = parser.parse_args()
    build = options.build.resolve()
    include = PROJECT / "include/headroom"
    modules = sorted({part.split("/")[0] for part in options.parts})
    start = time.time()

    copy_project(build / "source")
    flags = configure(build)
    found, sources = find(include, flags)
    chosen = mutants.draw([m for m in found if not modules or {m.module, m.file} & {*options.parts}], options.number)
    numbered = dict(enumerate(chosen, 1))
    print(f"{len(found)} places to mutate, {len(numbered)} mutants; {time.time() - start:.0f} s", flush=True)

    write = lambda of: write_headers(build / "source/include", include, sources, of)
    build_tests(build, targets_of(modules, build / "tests"), write, numbered)
    print(f"built; {time.time() - start:.0f} s", flush=True)

    tests = Tests(read_programs(build / "tests", modules), build)
    reached = tests.reach()
    print(f"{len(tests.cases)} tests reach {len(reached & numbered.keys())} mutants; {time.time() - start:.0f} s", flush=True)

    last = build / "survivors.json"
    to_run = numbered
    if options.survivors:
        keys = {tuple(key) for key in json.loads(last.read_text())}
        to_run = {number: mutant for number, mutant in numbered.items() if mutant.key in keys}
    survivors = run_all(tests, to_run)
    last.write_text(json.dumps([numbered[number].key for number in survivors]))
    print(f"run; {time.time() - start:.0f} s", flush=True)
    sys.exit(0 if report(to_run, survivors, reached) else 1)


if __name__ == "__main__":
    main()
