"""The test programs: which of their test cases reach a mutant, and whether these notice it."""
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

MOST_MUTANTS = 1 << 16  # as in headroom_mutant.hpp
QUICK = 0.5  # seconds; tests of a program that are faster run in one process


@dataclass(frozen=True)
class Program:
    name: str
    command: tuple
    directory: str
    environment: tuple = ()  # "name=value"

    @property
    def module(self):
        return self.name.split("/")[0]


@dataclass(frozen=True)
class Case:
    program: Program
    name: str  # of a test case of Catch; empty for a program without Catch
    seconds: float
    reached: frozenset


def read_programs(build, modules):
    """The tests that CMake knows, of these modules or of all modules."""
    listed = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, stdout=subprocess.PIPE).stdout)
    result = []
    for test in listed["tests"]:
        properties = {item["name"]: item["value"] for item in test["properties"]}
        environment = tuple(properties.get("ENVIRONMENT", ()))
        program = Program(test["name"], tuple(test.get("command", ())), properties["WORKING_DIRECTORY"], environment)
        if not modules or program.module in modules:
            result.append(program)
    return result


def variables_of(program):
    return {**os.environ, **dict(variable.split("=", 1) for variable in program.environment)}


def run(program, arguments, limit, **environment):
    """Whether the test passes within `limit` seconds."""
    process = subprocess.Popen(
        [*program.command, *arguments], cwd=program.directory, env={**variables_of(program), **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        return process.wait(limit) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with its children
        process.wait()
        return False


class Tests:
    def __init__(self, programs, build):
        self.programs = programs
        self.build = build
        self.cases = []

    def reach(self):
        """Runs each test case once, without mutants. Returns the numbers of the mutants that any of them reaches."""

        def case_of(program_and_name):
            program, name = program_and_name
            with tempfile.NamedTemporaryFile(dir=self.build) as file:
                file.truncate(MOST_MUTANTS)
                start = time.time()
                if not run(program, self.arguments([name]), None, HEADROOM_MUTANT_REACHED=file.name):
                    raise SystemExit(f"{program.name} fails without mutants: {name}")
                seconds = time.time() - start
                return Case(program, name, seconds, frozenset(number for number, byte in enumerate(file.read()) if byte))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self.cases = list(pool.map(case_of, [(program, name) for program in self.programs for name in self.names(program)]))
        for program in self.programs:
            names = [case.name for case in self.cases if case.program == program]
            if names and not run(program, self.arguments(names), None):
                print(f"{program.name} fails without mutants: each of those that it notices may be one that it does not")
        return frozenset().union(*(case.reached for case in self.cases))

    @staticmethod
    def names(program):
        """The test cases as Catch2 lists them, version 3 or 2. A program without Catch is one test case without a name."""
        if "Catch" not in Tests.output(program, "--help"):
            return [""]
        listed = Tests.output(program, "--list-tests", "--verbosity", "quiet")
        if not listed or listed.startswith(("All available", "Matching", "error")):
            listed = Tests.output(program, "--list-test-names-only")
        return list(dict.fromkeys(line for line in listed.split("\n") if line.strip()))  # each rank of mpiexec lists them

    @staticmethod
    def output(program, *arguments):
        return subprocess.run(
            [*program.command, *arguments], cwd=program.directory, env=variables_of(program),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ).stdout  # fmt: skip

    @staticmethod
    def arguments(names):
        if names == [""]:
            return []
        return ["--abort", "--warn", "NoTests", ",".join('"' + re.sub(r'(["\\,\[])', r"\\\1", name) + '"' for name in names)]

    def notice(self, number, module):
        """Whether a test fails with this mutant. Quick tests run first, those of the mutant's own module before others."""
        cases = [case for case in self.cases if number in case.reached]
        rounds = {}
        for case in sorted(cases, key=lambda case: (case.seconds > QUICK, case.program.module != module, case.seconds)):
            key = (case.program, case.name if case.seconds > QUICK else "")
            rounds.setdefault(key, []).append(case)
        for (program, _), together in rounds.items():
            limit = 10 + 3 * sum(case.seconds for case in together)
            if not run(program, self.arguments([case.name for case in together]), limit, HEADROOM_MUTANT=str(number)):
                return True
        return False

    def notice_in_constants(self, number, file):
        """Whether the test of this path fails, or does not compile, with the mutant in constants, too. If no test reaches the
        mutant, the other tests of its module are compiled as well."""
        tests = self.build / "source/tests"
        mirrored = (tests / file).with_suffix(".cpp")
        others = [] if any(number in case.reached for case in self.cases) else mirrored.parent.glob("*.cpp")
        commands = json.loads((self.build / "tests/compile_commands.json").read_text())
        for source in dict.fromkeys([mirrored, *others]):
            for command in commands:
                if command["file"] == str(source) and self.fails_with_constants(number, command):
                    return True
        return False

    def fails_with_constants(self, number, command):
        words = shlex.split(command["command"])
        made = self.build / f"constants_{number}"
        words[words.index("-o") + 1] = f"{made}.o"
        words.append(f"-DHEADROOM_MUTANT_OF_CONSTANTS={number}")
        quiet = {"cwd": command["directory"], "stderr": subprocess.DEVNULL}
        if subprocess.run(words, **quiet).returncode != 0:
            return True
        if subprocess.run(["g++", f"{made}.o", "-lCatch2WithMain", "-o", made], **quiet).returncode != 0:
            return False
        passed = run(Program("", (str(made),), command["directory"]), ["--abort"], 120)
        made.unlink()
        return not passed
