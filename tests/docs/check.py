#!/usr/bin/env python3
"""Tests the documents: README.md, CONTRIBUTING.md, SECURITY.md and docs/.

check.py blocks FILE                     lists the code blocks of FILE: line, language, name
check.py block FILE LINE BUILD [FLAG…]   tests the block that opens in LINE, with headroom's build directory and flags for the libraries
                                         of adapters; 77 if a library is missing
check.py links PROJECT                   finds linked files, headings after a #, paths in backquotes, and in a header the name that
                                         links to it; compares the traps of docs/notes/numerics.md with the tests that name them
check.py figures [--write] [NAME…]       compares tables, all or those named, with build/figures/NAME.txt, or replaces them

A code block has its name before it: <!-- test: NAME -->.
cpp    With `int main` it is a program, which must compile without warnings and exit with 0. If the next block is `text` with the name
       `output`, the program must print that; line breaks may differ. Without `int main` the block replaces `#include BLOCK` in the
       surroundings of its name, or `statements`: the start of surroundings*.cpp and what follows `//// NAME` there.
       Adapters for GPUs are compiled with tests/gpu/shim, which has CUDA's headers for the CPU.
c      A program in C99, which links the C library of BUILD. The rest is as in cpp.
cmake  A CMakeLists.txt without its first two lines (cmake_minimum_required, project). It builds `train` from train.cpp, which is
       examples/minimal.cpp, or from train.c. It may find headroom installed or in third_party/headroom.
sh     Must succeed in a copy of the project with train.cpp. $HOME is empty. Scripts in lines `bash SCRIPT …` must exist, but do not run.

A table is a `text` block after <!-- figure: NAME, within 10 % or 0.2 -->. Words must be the same. Numbers may differ by that share of the
larger one, or by the second bound; from 10,000 on they are loss scales, and may differ by a factor of 4. Other numbers in the first line
are settings, and must be the same. A p that is not small may be any number up to 1 on another CPU: the second bound of tables with p is at
least 1. Rows in which rounding decides whether a network diverges have no bounds: "within 25 % or 10, except ROW|ROW"."""
import glob
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
Block = namedtuple("Block", "line tag kind name text")
BLOCK = re.compile(r"(?:^<!-- (?P<kind>test|figure): (?P<name>.*) -->\n+)?^```(?P<tag>.*)\n(?P<text>(?:(?!```).*\n)*)```$", re.M)
WRONG = {
    "^```": "a code block does not end",
    "^ +```": "an indented code block is not tested: start it at the margin",
    "(?<=\n\n)    ": "a code block by indentation has no language: fence it",
    "^<!-- (test|figure): ": "no code block follows",
}
faults = []


def read_blocks(path):
    """The code blocks of a document, and the text without them."""
    text, blocks = Path(path).read_text(), []

    def take(found):
        line = text.count("\n", 0, found.start("tag")) + 1
        blocks.append(Block(line, found["tag"] or "text", found["kind"], found["name"], found["text"]))
        if blocks[-1].tag not in ("c", "cpp", "cmake", "sh", "python", "text"):
            faults.append(f"{path}:{line}: a code block in no language that the tests know: {found['tag']}")
        return "\n" * found[0].count("\n") + "."

    prose = BLOCK.sub(take, text)
    for wrong, what in WRONG.items():
        faults.extend(f"{path}:{prose.count(chr(10), 0, found.start()) + 1}: {what}" for found in re.finditer(wrong, prose, re.M))
    return blocks, prose


def list_blocks(path):
    print(*(f"{block.line} {block.tag} {block.name or ''}" for block in read_blocks(path)[0]), sep="\n")


def skip(why):
    sys.exit(print("Skipped:", why) or 77)


def run(*command, **options):
    sys.stdout.flush()
    subprocess.run([str(word) for word in command], check=True, **options)


class BlockTest:
    def __init__(self, document, line, build, *flags):
        self.document, self.at, self.build, self.flags = document, f"{document}:{line}", Path(build), flags
        blocks = read_blocks(document)[0]
        pairs = {pair[0].line: pair for pair in zip(blocks, [*blocks[1:], None])}
        self.block, following = pairs.get(int(line)) or sys.exit(f"{self.at}: no block opens in this line")
        if (self.block.tag == "c" or "headroom::c " in self.block.text) and not (self.build / "libheadroom.so").exists():
            skip(f"{build} has no C library.")
        self.output = following.text if following and following[1:4] == ("text", "test", "output") else None
        with tempfile.TemporaryDirectory() as work:
            self.work = Path(work)
            getattr(self, "test_" + self.block.tag)()

    def test_cpp(self):
        block = f'#line {self.block.line + 1} "{self.document}"\n{self.block.text}'
        program = block if re.search(r"\bint main\(", block) else self.surroundings().replace("#include BLOCK\n", block)
        libraries = []
        for name, wanted in (("TORCH", r"adapters/(torch|c10d)|torch::"), ("GLOO", "ProcessGroupGloo"), ("MPI", "adapters/mpi")):
            if re.search(wanted, program):
                libraries += (os.environ.get(f"{name}_LIBRARIES") or skip(f"{name} was not found.")).split()
        if "headroom/gpu" in program:
            libraries += [f"-I{SOURCE}/tests/gpu/shim", f"-I{SOURCE}/examples/cuda"]
            program = re.sub(r"(\w+)<<<([^>]*)>>>\(", r"launch(\1, \2, ", program)
        options = ["-std=c++17", "-Wpedantic", "-Wno-unused", "-Wno-unknown-pragmas", *self.flags, "-pthread", *libraries]
        self.run_program(os.environ.get("CXX") or "g++", "program.cpp", program, options)

    def surroundings(self):
        name = self.block.name or "statements"
        for path in (SOURCE / "tests/docs").glob("surroundings*.cpp"):
            first, *parts = re.split(r"^//// (\w+)\n", path.read_text(), flags=re.M)
            if name in parts[::2]:
                return first + parts[parts.index(name) + 1]
        sys.exit(f"{self.at}: tests/docs/surroundings*.cpp have no {name}")

    def test_c(self):
        options = ["-std=c99", "-pedantic", f"-L{self.build}", "-lheadroom", f"-Wl,-rpath,{self.build}"]
        self.run_program(os.environ.get("CC") or "cc", "program.c", self.block.text, options)

    def run_program(self, compiler, name, text, options):
        (self.work / name).write_text(text)
        run(compiler, "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", self.work / name, "-o", self.work / "program", *options)
        ran = subprocess.run(["./program"], cwd=self.work, stdout=subprocess.PIPE, text=True)
        print(ran.stdout)
        ran.check_returncode()
        if self.output is not None and self.output.split() != ran.stdout.split():
            sys.exit(f"{self.at}: the document has another output:\n{self.output}")

    def test_cmake(self):
        project, prefix = self.work / "project", self.work / "prefix"
        (project / "third_party").mkdir(parents=True)
        (project / "third_party/headroom").symlink_to(SOURCE)
        shutil.copy(SOURCE / "examples/minimal.cpp", project / "train.cpp")
        shutil.copy(SOURCE / "examples/c/train.c", project)
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(train LANGUAGES C CXX)\n" + self.block.text)
        run("cmake", "--install", self.build, "--prefix", prefix, stdout=subprocess.DEVNULL)
        run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", project / "build", "--target", "train")
        run(project / "build/train")

    def test_sh(self):
        for script in re.findall(r"^bash (\S+)", self.block.text, re.M):
            (SOURCE / script).is_file() or faults.append(f"{self.at}: there is no {script}")
        script = re.sub(r"^bash .*|^#.*", "", self.block.text, flags=re.M)
        script = re.sub("^cmake -S .*", r"\g<0> -DCMAKE_CXX_FLAGS_RELEASE=-O0", script, flags=re.M)  # takes a third of the time
        if script.strip():
            project = self.work / "project"
            (project / "home").mkdir(parents=True)
            run("sh", "-c", f"git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t {project}", cwd=SOURCE)
            shutil.copy(project / "examples/minimal.cpp", project / "train.cpp")
            run("bash", "-euo", "pipefail", "-c", script, cwd=project, env={**os.environ, "HOME": f"{project}/home"})


def anchors(path):
    """Of headings: lower case, no punctuation, a hyphen for each space."""
    headings = re.findall("^#+ +(.*)", Path(path).read_text(), re.M)
    return [re.sub("[^a-z0-9 _-]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).lower()).replace(" ", "-") for line in headings]


def check_links(project):
    os.chdir(project)
    for document in ["README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(glob.glob("docs/*.md") + glob.glob("docs/notes/*.md"))]:
        prose, missing = read_blocks(document)[1], []
        for text, link in re.findall(r"(?:\[([^][]*))?\]\(([^) ]+)\)", prose):
            target, _, anchor = link.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(document), target)) if target else document
            name = path.startswith("include/") and re.fullmatch(r"`[^`]*?(\w+)\W*`", text)
            if "://" not in link and (not os.path.exists(path) or anchor and anchor not in anchors(path)):
                missing.append(link)
            elif name and not re.search(rf"\b{name[1]}\b", Path(path).read_text()):
                missing.append(f"{name[1]} in {path}")
        paths = re.findall(r"`((?:\.ci|include|tests|examples|evidence|docs|benchmarks|cmake|tools|packaging)/[^` ]*)`", prose)
        modules = re.findall("`((?:dtype|kernel|tree|ops|policy|state|training|observe|quantize|gpu|adapters|detail)/[^` ]*)`", prose)
        missing += [path for path in paths + ["include/headroom/" + path for path in modules]
                    if "<" not in path and "/NAME." not in path and not glob.glob(path)]  # not a placeholder
        faults.extend(f"{document}: there is no {what}" for what in missing)
    check_traps("docs/notes/numerics.md")


def check_traps(document):
    tests = {str(path): path.read_text(errors="replace") for path in Path("tests").rglob("*") if path.is_file()}
    rows = dict(re.findall(r"^\| (T[0-9]+) \|(.*)", Path(document).read_text(), re.M))
    for trap, path in [(trap, path) for trap, row in rows.items() for path in re.findall("`(tests/[^`]*)`", row)]:
        re.search(rf"\b{trap}(?![0-9])", tests.get(path, "")) or faults.append(f"{document}: {path} does not name {trap}")
    for path, text in tests.items():
        faults.extend(f"{document} does not list {trap} of {path}" for trap in set(re.findall(r"\b(T[0-9]+)[:_]", text)) - rows.keys())


def alike(a, b, bounds):
    """Whether two words are the same within (share, bound), or, without bounds, the same or loss scales of the same size."""
    if a == b:
        return True
    a, b = (re.sub(",|:$", "", word) for word in (a, b))
    if not all(re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", word) for word in (a, b)):
        return False
    a, b = float(a), float(b)
    if min(a, b) >= 10000:
        return max(a, b) <= 4 * min(a, b)
    return bool(bounds) and abs(a - b) <= max(bounds[0] / 100 * max(abs(a), abs(b)), bounds[1] + 1e-9)


def compare(at, block, made):
    found = re.fullmatch(r"(\w+), within ([\d.]+) % or ([\d.]+)(?:, except (.+))?", block.name)
    if not found:
        return faults.append(f'{at}: not "NAME, within A % or B": {block.name}')
    for number, (line, other) in enumerate(itertools.zip_longest(block.text.splitlines(), made, fillvalue="")):
        is_excepted = found[4] and re.match(f" *({found[4]}) ", line)
        bounds = None if number == 0 else (0, float("inf")) if is_excepted else (float(found[2]), float(found[3]))
        words, others = line.split(), other.split()
        if len(words) != len(others) or not all(alike(*pair, bounds) for pair in zip(words, others)):
            faults.append(f"{at}: table {found[1]}: the run has\n  {other}\nand the document\n  {line}")
    print(f"{at}: compared within {found[2]} % or {found[3]}")


def figures(*names):
    os.chdir(SOURCE)
    is_written, names = "--write" in names, {name for name in names if name != "--write"}
    found = set()
    for document in map(Path, ("README.md", "docs/evidence.md", "docs/notes/evidence.md")):
        for block in read_blocks(document)[0]:
            name, at = (block.name or "").split(",")[0], f"{document}:{block.line}"
            if block.kind != "figure" or names and name not in names or name == "machine" and not is_written:
                continue
            found.add(name)
            made = Path(f"build/figures/{name}.txt")
            if is_written and made.exists():
                document.write_text(document.read_text().replace(f"```text\n{block.text}```", f"```text\n{made.read_text()}```"))
            elif made.exists():
                compare(at, block, made.read_text().splitlines())
            elif not is_written:
                faults.append(f"{at}: {made} is missing. Make it with bash docs/figures.sh.")
    for picture in glob.glob("docs/*.png") if is_written else ():
        if os.path.exists(made := f"build/figures/{Path(picture).name}"):
            shutil.copy(made, picture)
    faults.extend(f"no document has the table {name}" for name in names - found)


try:
    commands = {"blocks": list_blocks, "block": BlockTest, "links": check_links, "figures": figures}
    commands.get((sys.argv + [""])[1], lambda *_: sys.exit(__doc__))(*sys.argv[2:])
except subprocess.CalledProcessError as error:
    faults.append(error)
print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
sys.exit(bool(faults))
