#!/usr/bin/env python3
"""compare.py - two builds in turns, in one run, and the ratio of each figure that a bench prints

    test/bench/compare.py ROUNDS BEFORE AFTER COMMAND [ARGUMENT...]

In COMMAND and ARGUMENTs {} stands for the build directory, as in
    test/bench/compare.py 9 /tmp/old/build/release build/release test/bench/bench_job.sh {} 500 64
A figure is a number in a line of the command's output; the same place in every run is the same figure. Printed for
each: the median of both builds, AFTER / BEFORE, and in how many rounds AFTER was the larger one. Which of the two runs
first changes from round to round. Not a test: nothing is asserted.
"""
import re
import statistics
import subprocess
import sys

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w.])")


def figures(build, command):
    """[(line with # for its numbers, [numbers])] of one run."""
    run = subprocess.run([word.replace("{}", build) for word in command], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"compare.py: {' '.join(command)} with {build} ended with {run.returncode}:\n{run.stdout}")
    return [(" ".join(NUMBER.sub("#", line).split()), [float(number.replace(",", "")) for number in NUMBER.findall(line)])
            for line in run.stdout.splitlines()]


def main():
    if len(sys.argv) < 5 or not sys.argv[1].isdigit() or int(sys.argv[1]) < 1:
        sys.exit(__doc__.rstrip())
    rounds, builds, command = int(sys.argv[1]), sys.argv[2:4], sys.argv[4:]
    runs = {0: [], 1: []}
    for number in range(rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            runs[which].append(figures(builds[which], command))
            if [line for line, _ in runs[which][-1]] != [line for line, _ in (runs[0] or runs[1])[0]]:
                sys.exit("compare.py: the command does not print the same lines in each run")
    for row, (line, numbers) in enumerate(runs[0][0]):
        if numbers:
            print(line)
        for column in range(len(numbers)):
            before, after = ([run[row][1][column] for run in runs[which]] for which in (0, 1))
            old, new = statistics.median(before), statistics.median(after)
            more = sum(b > a for a, b in zip(before, after))
            ratio = f"{new / old:7.3f}" if old else "      -"
            print(f"    {old:12,.1f} {new:12,.1f} {ratio}   {more} of {rounds}")


main()
