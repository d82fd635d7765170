#!/usr/bin/env python3
"""Prints docs/cli.md from the program's own help: cli_reference.py [PROGRAM] >docs/cli.md."""
import re
import subprocess
import sys

program = sys.argv[1] if len(sys.argv) > 1 else "build/release/src/cli/fedgrab"


def help_of(*words):
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True, env={"COLUMNS": "100", "PATH": ""})
    text = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines()).replace(program, "fedgrab")
    return text.partition("\n\nStart with `fedgrab demo`")[0] if words else text


def subcommands(text):
    """Names below a heading of subcommands, in their order."""
    return [m[1] for block in re.findall(r"(?m)^Subcommands:\n((?:  .*\n?)+)", text) for m in re.finditer(r"(?m)^  ([a-z]\S*)", block)]


def section(words):
    text = help_of(*words)
    print(f"\n{'#' * (len(words) + 1)} `fedgrab {' '.join(words)}`\n\n```text\n{text}\n```")
    for name in subcommands(text):
        section([*words, name])


print("# Command line\n\nWritten by `scripts/cli_reference.py` from the program's own help. Exit codes: 0 done, 1 other failure, 2 usage or configuration, "
      "3 data,\n4 a checkpoint or model file that cannot be used, 130 interrupted.")
top = help_of()
print(f"\n```text\n{top}\n```")
for command in subcommands(top):
    section([command])
