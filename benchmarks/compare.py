#!/usr/bin/env python3
"""Trains one federated workload with fedgrab and with other frameworks on this machine and prints one table."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
SCRIPTS = {"pytorch-loop": "pytorch_loop.py", "published-loop": "published_loop.py", "pfl-research": "pfl_research.py",
           "flower": "flower_simulation.py"}
SETTINGS = {  # of fedgrab, beside those of `fedgrab bench --workload`
    "pfl": "data.per_class=5000 data.augment=none longtail.factor=1 partition.kind=iid partition.clients=1000 model.name=pfl-cnn "
           "train.participation=0.05 train.local_epochs=1 train.lr=0.1 train.momentum=0 train.batch=10 engine.slots=50 "
           "engine.groups=2",
    "paper": "data.per_class=5000 data.augment=crop,flip longtail.factor=100 partition.clients=40 model.name=resnet18 "
             "train.local_epochs=5 train.lr=0.03 train.momentum=0.5 train.batch=5",
}
SETTINGS["paper32"] = SETTINGS["paper"].replace("train.batch=5", "train.batch=32")


def fedgrab(program, workload, device, rounds, method):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        command = [program, "run", "--data", "shapes", "--method", method, "--device", device, "--rounds", str(rounds + 1),
                   "--quiet", "--out", str(out), "--set", *SETTINGS[workload].split(), f"eval.every={rounds + 2}",
                   "record.tensorboard=false", f"checkpoint.every={rounds + 2}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
        records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()][1:]
        version = subprocess.run([program, "version"], capture_output=True, text=True).stdout.split("\n")[0]
    seconds = [r["seconds"] - r["phase_seconds"].get("evaluate", 0) for r in records]
    steps = statistics.fmean(r["steps"] for r in records)
    middle = statistics.median(seconds)
    return {"version": version, "rounds": rounds, "seconds_per_round": middle, "steps_per_round": steps,
            "ms_per_step": 1e3 * middle / steps}


def peer(name, workload, device, rounds):
    environment = dict(os.environ, PYTHONPATH=str(PEERS))
    if device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    done = subprocess.run([sys.executable, PEERS / SCRIPTS[name], workload, device, str(rounds)], capture_output=True,
                          text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="pfl", choices=SETTINGS)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of each, after one to warm up (default 5)")
    parser.add_argument("--peers", default=",".join(["fedgrab", *SCRIPTS]), help="some of them, by comma")
    parser.add_argument("--fedgrab", default="build/release/src/cli/fedgrab", help="the program")
    parser.add_argument("--method", default="fedavg", help="method of fedgrab (default fedavg)")
    parser.add_argument("--json", type=pathlib.Path, help="file for the numbers")
    given = parser.parse_args()
    unknown = set(given.peers.split(",")) - {"fedgrab", *SCRIPTS}
    if unknown or given.rounds < 1:
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}" if unknown else "--rounds is at least 1")
    measured = {}
    for name in given.peers.split(","):
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            measured[name] = (fedgrab(given.fedgrab, given.workload, given.device, given.rounds, given.method)
                              if name == "fedgrab" else peer(name, given.workload, given.device, given.rounds))
        except (RuntimeError, OSError, ValueError) as error:
            print(f"{name} skipped: {error}", file=sys.stderr)
    base = measured.get("fedgrab", {}).get("ms_per_step")
    print(f"| {given.workload} on {given.device} | version | s per round | ms per client-step | relative to fedgrab |")
    print("| --- | --- | --: | --: | --: |")
    for name, m in measured.items():
        ratio = f"{m['ms_per_step'] / base:.1f} ×" if base else "–"
        print(f"| {name} | {m['version']} | {m['seconds_per_round']:.3f} | {m['ms_per_step']:.3f} | {ratio} |")
    if given.json:
        given.json.write_text(json.dumps({"workload": given.workload, "device": given.device, "peers": measured}, indent=1) + "\n")
    return 0 if measured else 1


if __name__ == "__main__":
    sys.exit(main())
