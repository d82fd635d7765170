"""Every method and preset against recorded results: reference_test.py PROGRAM, or reference_test.py PROGRAM --record.

Three rounds on the built-in set. On a machine of the recorded kind (processor, LibTorch) every tensor of model, server and
clients and every number of metrics.jsonl must be the same to the bit; on any other, accuracy and loss must be near.
"""
import argparse
import hashlib
import json
import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
COMMON = ["--rounds", "3", "--seed", "1", "--device", "cpu", "--quiet", "--set", "engine.workers=1", "data.per_class=60",
          "data.test_per_class=20", "record.tensorboard=false", "record.prior=true", "checkpoint.every=3"]


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def tensors_of(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size:]
    tensors = {name: body[slice(*entry["data_offsets"])] for name, entry in header.items()}
    return {name: digest(value) for name, value in unstacked(tensors).items()}


def unstacked(tensors):
    """clients/GROUP/NAME has a row for each client in clients/GROUP: the rows as client/NUMBER/NAME."""
    single = {}
    for name, value in tensors.items():
        owner, _, rest = name.partition("/")
        group, _, part = rest.partition("/")
        if owner != "clients":
            single[name] = value
        elif part:
            clients = [number for number, in struct.iter_unpack("<q", tensors[f"clients/{group}"])]
            row = len(value) // len(clients)
            for place, client in enumerate(clients):
                single[f"client/{client}/{part}"] = value[place * row:(place + 1) * row]
    return single


def timeless(value):
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not re.search("seconds|time|memory", k)}
    return value


def run(program, arguments):
    """What a run leaves: digests of its tensors by owner, of each field of its metrics, and its last accuracy and loss."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        done = subprocess.run([program, "run", *COMMON, *arguments, "--out", str(out)], capture_output=True, text=True)
        if done.returncode != 0:
            return {"error": done.stderr.strip().splitlines()[-1:]}
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        tensors = tensors_of(next((out / "checkpoints").glob("*.safetensors")))
        owned = {"model": {}, "server": [], "client": []}
        for name, value in sorted(tensors.items()):
            owner, _, rest = name.partition("/")
            if owner == "client":  # by value alone: names of state may change
                owned["client"].append(rest.partition("/")[0] + ":" + value)
            elif owner == "server":
                owned["server"].append(value)
            elif owner != "deployed":
                owned["model"][name] = value
        final = tensors_of(out / "model.safetensors")
        return {
            "model": digest(json.dumps(owned["model"]).encode()),
            "server": digest(json.dumps(sorted(owned["server"])).encode()),
            "client": digest(json.dumps(sorted(owned["client"])).encode()),
            "deployed": digest(json.dumps(final).encode()),
            "metrics": [{k: digest(json.dumps(timeless(v), sort_keys=True).encode()) for k, v in line.items()
                         if not re.search("seconds|time|memory", k)} for line in lines],
            "accuracy": lines[-1]["acc"]["all"],
            "loss": lines[-1]["loss"],
        }


def machine_kind(program):
    model = re.search(r"^flags\s*:.*$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    name = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    version = subprocess.run([program, "version"], capture_output=True, text=True).stdout
    torch = re.search(r"LibTorch\s+(\S+)", version)
    return " ".join([name[1] if name else "unknown", digest(model[0].encode()) if model else "", torch[1] if torch else ""])


def differences(expected, got, same_machine):
    if "error" in got:
        return [" ".join(got["error"])]
    if not same_machine:
        near = abs(got["accuracy"] - expected["accuracy"]) < 0.08 and math.isclose(got["loss"], expected["loss"], rel_tol=0.05)
        return [] if near else [f"accuracy {got['accuracy']:.3f} instead of {expected['accuracy']:.3f}, "
                                f"loss {got['loss']:.4f} instead of {expected['loss']:.4f}"]
    wrong = [owner for owner in ("model", "server", "client", "deployed") if got[owner] != expected[owner]]
    for number, (before, after) in enumerate(zip(expected["metrics"], got["metrics"]), 1):
        wrong += [f"{key} of round {number}" for key in before if after.get(key) != before[key]]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--cases", default=str(HERE / "cases.json"))
    parser.add_argument("--results", default=str(HERE / "results.json"))
    parser.add_argument("--only", default="")
    flags = parser.parse_args()
    cases = {name: args for name, args in json.loads(pathlib.Path(flags.cases).read_text()).items() if re.search(flags.only, name)}
    kind = machine_kind(flags.program)
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(cases, pool.map(lambda args: run(flags.program, args), cases.values())))
    path = pathlib.Path(flags.results)
    if flags.record:
        known = json.loads(path.read_text()) if flags.only else {"results": {}}
        known |= {"machine": kind, "results": known["results"] | found}
        path.write_text(json.dumps(known, indent=1) + "\n")
        failed = {name: got["error"] for name, got in found.items() if "error" in got}
        print(f"recorded {len(found)} cases", failed or "")
        return bool(failed)
    recorded = json.loads(path.read_text())
    same_machine = recorded["machine"] == kind
    failed = 0
    for name, got in found.items():
        wrong = differences(recorded["results"][name], got, same_machine)
        failed += bool(wrong)
        print(f"{'ok    ' if not wrong else 'FAILED'} {name} {'; '.join(wrong)}")
    print(f"{len(found)} cases, {failed} failed; {'to the bit' if same_machine else 'another machine than recorded: approximately'}")
    return failed > 0


sys.exit(main())
