"""Runs every command of the matrix on one CPU, emulated or this machine's own, and compares the outcome with docs/platforms.md.

  platform_test.py CPU [--write docs/platforms.md] [--only COMMAND …] [--part I/N] [--keep DIRECTORY]
  platform_test.py --list

CPU is a name of cpus.py. Exit code 0: everything passed or is skipped as the committed table says; 77: this CPU can't be had here.
"""
import argparse
import concurrent.futures
import datetime
import fnmatch
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import table
from commands import COMMANDS
from cpus import CPUS, LACKS, NATIVE, describe
from machine import ROOT, Failure, Machine, Skipped

EXIT_SKIPPED = 77
AT_ONCE = 2
MEASURED = "measured"
PASSES = "passes"
RUNS = "runs"
SKIPPED = "skipped"
FAILS = "fails"
TABLE = ROOT / "docs/platforms.md"


def outcome_of(command, machine, cells):
    """The cell of a command: passes, skipped with the reason, or fails with the message."""
    begin = time.monotonic()
    try:
        for need in command.needs:
            if not cells[need].startswith((PASSES, RUNS)):
                raise Skipped(f"{need} is skipped" if cells[need].startswith(SKIPPED) else f"{need} fails")
        detail = command.run(machine)
        cell = detail if detail and detail.startswith(RUNS) else PASSES + (f": {detail}" if detail else "")
    except Skipped as reason:
        cell = f"{SKIPPED}: {reason}"
    except Failure as failure:
        cell = f"{FAILS}: {failure}"
    except (OSError, KeyError, ValueError) as error:  # a file or a document isn't what it should be
        cell = f"{FAILS}: {type(error).__name__}: {error}"
    print(f"{command.name:40} {time.monotonic() - begin:5.0f} s  {cell}", flush=True)
    return table.in_a_cell(cell)


def chosen_commands(patterns):
    """Those whose names match, and what they need."""
    by_name = {command.name: command for command in COMMANDS}
    wanted = {name for name in by_name if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)}
    waiting = list(wanted)
    while waiting:
        more = set(by_name[waiting.pop()].needs) - wanted
        wanted |= more
        waiting += more
    return [command for command in COMMANDS if command.name in wanted]


def root_of(command, by_name):
    """The command that begins the chain of those that need each other."""
    while command.needs:
        command = by_name[command.needs[0]]
    return command.name


def part_of(commands, part):
    """Every N-th chain of commands, from the I-th on: they need nothing of the others."""
    number, parts = part
    by_name = {command.name: command for command in commands}
    roots = [command.name for command in sorted(commands, key=lambda command: -command.cost) if not command.needs]
    return [command for command in commands if roots.index(root_of(command, by_name)) % parts == number - 1]


def urgency(command, commands):
    """The cost of a command and of the longest chain that needs it."""
    return command.cost + max((urgency(other, commands) for other in commands if command.name in other.needs), default=0)


def run_all(machine, commands):
    """{command: cell}. Of the commands whose needs are done, the most urgent begin first."""
    waiting = sorted(commands, key=lambda command: -urgency(command, commands))
    cells, running = {}, {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        while waiting or running:
            ready = [command for command in waiting if cells.keys() >= set(command.needs)]
            for command in ready[:AT_ONCE - len(running)]:
                waiting.remove(command)
                running[pool.submit(outcome_of, command, machine, cells)] = command.name
            finished, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in finished:
                cells[running.pop(future)] = future.result()
    return cells


def problems_of(cells, committed, cpu):
    """What fails, and what is skipped although the committed table says that it passes."""
    problems = [f"{name}: {cell}" for name, cell in cells.items() if cell.startswith(FAILS)]
    for name, cell in cells.items():
        said = committed.get((name, cpu.title), table.NOT_RUN)
        if said == table.NOT_RUN:
            problems.append(f"{name}: the table has no cell for it; --write makes it")
        elif said.startswith(PASSES) and cell.startswith(SKIPPED) and not (cpu is NATIVE and LACKS in cell):  # the table's machine is another
            problems.append(f"{name}: passes by the table, and is {cell}")
    return problems


def write_table(path, cells, cpu):
    text = path.read_text()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    measured = f"{describe(cpu)}; {datetime.date.today()}" + (f", commit {commit}" if commit else "")
    merged = {**table.read_cells(text), **{(name, cpu.title): cell for name, cell in cells.items()}, (MEASURED, cpu.title): table.in_a_cell(measured)}
    path.write_text(table.with_cells(text, merged, [MEASURED, *(command.name for command in COMMANDS)], [known.title for known in CPUS]))


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cpu", nargs="?", choices=[cpu.name for cpu in CPUS])
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the outcome into this file's table")
    parser.add_argument("--only", nargs="+", default=[], metavar="COMMAND", help="these and what they need; * matches any letters")
    parser.add_argument("--part", type=lambda text: tuple(map(int, text.split("/"))), default=(1, 1), metavar="I/N", help="one of N parts of the commands")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIRECTORY", help="make it, run there, and leave what was written")
    parser.add_argument("--list", action="store_true", help="the commands")
    options = parser.parse_args(arguments)
    if options.cpu is None and not options.list:
        parser.error("which CPU?")
    return options


def main(arguments):
    options = options_of(arguments)
    if options.list:
        print("\n".join(command.name for command in COMMANDS))
        return 0
    cpu = next(cpu for cpu in CPUS if cpu.name == options.cpu)
    if reason := cpu.reason_to_skip():
        print(f"SKIPPED: every command on {cpu.title} -- {reason}")
        return EXIT_SKIPPED
    with tempfile.TemporaryDirectory(prefix="trainctl-platform-") as directory:
        cells = run_all(Machine(cpu, options.keep or pathlib.Path(directory) / cpu.name), part_of(chosen_commands(options.only), options.part))
    problems = problems_of(cells, {} if options.write else table.read_cells(TABLE.read_text()), cpu)
    if options.write:
        write_table(options.write, cells, cpu)
        problems = [problem for problem in problems if f": {FAILS}" in problem]
    skipped = [name for name, cell in cells.items() if cell.startswith(SKIPPED)]
    failed = sum(cell.startswith(FAILS) for cell in cells.values())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n".join([f"{cpu.title}: {len(cells) - len(skipped)} of {len(cells)} commands ran, {len(skipped)} are skipped with a reason; "
                     f"{used.ru_utime + used.ru_stime:.0f} s of CPU time", *problems,
                     *(f"SKIPPED: {name} -- {cells[name].removeprefix(SKIPPED + ': ')}" for name in skipped),
                     f"cases: {len(cells) - len(skipped) - failed} passed, {len(skipped)} skipped, {failed} failed"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
