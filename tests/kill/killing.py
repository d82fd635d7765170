"""Programs that are killed at a system call of their choice, and what must be true when they are started again."""
import dataclasses
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

from harness import PROGRAM, TINY, half_written, result, write_ppm

SHIM = os.environ["KILL_AT_CALL"]  # what kill_at_call.cpp was compiled to
CALLS, KILL_AT, STOPPED = 0, 8, 16  # where its counters lie


@dataclasses.dataclass
class Scenario:
    name: str
    command: list  # the first time and ever again
    prepare: Callable = lambda folder: None
    runs: tuple = ("out",)


def write_list(folder):
    """As many images as a cache is decoded in several steps for."""
    rows = ["path,label"]
    for i in range(24):
        colour = [40, 40, 40 + i]
        colour[i % 2] = 220
        write_ppm(folder / "images" / f"{i}.ppm", colour, size=20)
        rows.append(f"images/{i}.ppm,{'ab'[i % 2]}")
    (folder / "list.csv").write_text("\n".join(rows))


def write_grid(folder):
    (folder / "grid.toml").write_text('[sweep]\nmethod = ["fedavg", "scaffold"]\n')


RUN = ["run", *TINY, "--method", "scaffold", "--rounds", "5", "--set", "data.per_class=8", "checkpoint.every=1", "checkpoint.keep=2"]
SCENARIOS = [
    Scenario("run, client state in memory", [*RUN, "data.validation=0.3", "--resume", "--out", "out"]),
    Scenario("run, client state on disk", [*RUN, "engine.client_memory=0", "--resume", "--out", "out"]),
    Scenario("image cache", ["run", "--data", "list", "--data-path", "list.csv", "--clients", "2", "--rounds", "2", "--set", "data.size=14",
                             "data.cache=cache", "checkpoint.every=1", "engine.workers=1", "--resume", "--out", "out"], write_list),
    Scenario("sweep", ["sweep", "grid.toml", *TINY, "--rounds", "3", "--set", "data.per_class=8", "checkpoint.every=1", "--jobs", "2",
                       "--out", "out"], write_grid, ("out/fedavg", "out/scaffold")),
]


class Disturbed:
    """One folder in which the command of a scenario is killed again and again."""

    def __init__(self, scenario, folder):
        self.scenario, self.folder = scenario, folder
        folder.mkdir()
        scenario.prepare(folder)
        self.state = folder.parent / f"{folder.name}.state"

    def start(self, kill_at=0):
        """Whether it was killed, how many calls there were and what it said. Waits for all processes that it started."""
        self.state.write_bytes(struct.pack("qqq", 0, kill_at, 0))
        environment = os.environ | {"LD_PRELOAD": SHIM, "FEDGRAB_KILL_STATE": str(self.state), "FEDGRAB_KILL_FOLDER": f"{self.folder}/",
                                    "XDG_CACHE_HOME": str(self.folder / "home")}
        ended, alive = os.pipe()
        begun = any((self.folder / run / "config.toml").exists() for run in self.scenario.runs)
        command = [word for word in self.scenario.command if begun or word != "--resume"]
        process = subprocess.Popen([PROGRAM, *command, "--quiet"], cwd=self.folder, env=environment, pass_fds=[alive],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.close(alive)
        said = process.communicate()[1]
        os.read(ended, 1)  # the end of the last process that has the other side
        os.close(ended)
        calls, _, stopped = struct.unpack("qqq", self.state.read_bytes())
        if not stopped and process.returncode != 0:
            raise AssertionError(f"ended with {process.returncode}: {said}")
        return bool(stopped), calls, said

    def finished_rounds(self):
        """The lines, with their times, of the rounds up to each run's newest checkpoint: these are not trained again."""
        lines = {}
        for run in self.scenario.runs:
            rounds = [int(path.stem.split("-")[1]) for path in (self.folder / run / "checkpoints").glob("round-*.safetensors")]
            if rounds:
                lines[run] = (self.folder / run / "metrics.jsonl").read_text().splitlines()[:max(rounds)]
                if len(lines[run]) < max(rounds):
                    raise AssertionError(f"{run}: a checkpoint of round {max(rounds)}, and {len(lines[run])} rounds on record")
        return lines

    def check_kept(self, before):
        for run, lines in before.items():
            now = (self.folder / run / "metrics.jsonl").read_text().splitlines()[:len(lines)]
            if now != lines:
                raise AssertionError(f"{run}: of {len(lines)} finished rounds, some were lost")

    def results(self):
        left = half_written(self.folder)
        if left:
            raise AssertionError(f"half-written files are left: {left}")
        return {run: result(self.folder / run) for run in self.scenario.runs}


def kill(scenario, kills, folder, seed):
    """Kills it so often, in chains of up to four in one folder, each of which then ends undisturbed; gives back how many rounds were
    on record at the kills. Throws AssertionError where a result differs from that of a process nobody kills."""
    dice = random.Random(f"{scenario.name} {seed}")
    whole = Disturbed(scenario, folder / "whole")
    _, calls, _ = whole.start()
    expected = whole.results()
    points = [1 + (2 * i + 1) * calls // (2 * kills) for i in range(kills)]  # everywhere, however few there are
    dice.shuffle(points)
    done, chain, kept = 0, 0, 0
    while done < kills:
        disturbed = Disturbed(scenario, folder / f"chain{chain}")
        history = []
        try:
            for link in range(dice.randint(1, 4)):
                if done == kills:
                    break
                at = points[done] if link == 0 else dice.randint(1, calls)
                before = disturbed.finished_rounds()
                killed, *_ = disturbed.start(at)
                history.append(at)
                disturbed.check_kept(before)
                if not killed:  # there was less left to do
                    break
                done += 1
                kept += sum(map(len, disturbed.finished_rounds().values()))
            before = disturbed.finished_rounds()
            disturbed.start()
            disturbed.check_kept(before)
            if disturbed.results() != expected:
                raise AssertionError("the results differ")
        except Exception as error:
            raise AssertionError(f"{scenario.name}, killed at calls {history} of {calls}: {error}; see {disturbed.folder}") from error
        shutil.rmtree(disturbed.folder)
        disturbed.state.unlink()
        chain += 1
    return calls, chain, kept


def main():
    """killing.py KILLS [SEED]: so many kills, a quarter in each scenario."""
    kills, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    root = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"fedgrab-kill-{os.getpid()}"
    root.mkdir()
    for number, scenario in enumerate(SCENARIOS):
        share = kills // len(SCENARIOS) + (number < kills % len(SCENARIOS))
        folder = root / str(number)
        folder.mkdir()
        calls, chains, kept = kill(scenario, share, folder, seed)
        print(f"{scenario.name}: {share} kills at {calls} calls, {chains} runs ended as if nothing had happened, {kept} finished rounds kept, 0 lost", flush=True)
        shutil.rmtree(folder)
    root.rmdir()


if __name__ == "__main__":
    main()
