"""Run directories as a long training leaves them, without the training."""
import base64
import json
import math
import random
import struct
import zlib


def write_run(root, rounds=30, classes=10, clients=20, names=None, method="fedgrab", seed=1, wanted=None, finished=True, config="", noise=0.0, samples=0):
    """Curves of the right shapes; numbers with as many digits as real ones."""
    dice = random.Random(seed)
    names = names or [f"class {c}" for c in range(classes)]
    classes = len(names)
    counts = [max(2, int(500 * 50 ** (-c / max(1, classes - 1)))) for c in range(classes)]
    thirds = [list(range(classes))[i * classes // 3:(i + 1) * classes // 3] for i in range(3)]
    groups = dict(zip(("many", "med", "few"), thirds))
    root.mkdir(parents=True)
    (root / "config.toml").write_text(f'[method]\nname = "{method}"\n[train]\nrounds = {wanted or rounds}\nseed = {seed}\n{config}')
    holdings = [[[c, dice.randint(1, counts[c])] for c in range(classes) if dice.random() < 0.5] for _ in range(clients)]
    population = {"class_names": names, "class_counts": counts, "groups": groups}
    (root / "classes.json").write_text(json.dumps(population | {"clients": holdings}))
    records = [record(r, wanted or rounds, classes, groups, counts, dice, method, noise) for r in range(1, rounds + 1)]
    (root / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    confusion = [[int(dice.random() < 0.2) + 20 * (a == b) for a in range(classes)] for b in range(classes)]
    if rounds:
        (root / "evaluation.json").write_text(json.dumps({"round": rounds, "confusion": confusion}))
    if samples:
        (root / "samples.json").write_text(json.dumps({"round": rounds, "samples": [sample(classes, dice) for _ in range(samples)]}))
    if finished:
        scores = records[-1]["acc"] | {"f1": 0.5}
        (root / "summary.json").write_text(json.dumps(population | {
            "rounds": rounds, "last": scores, "mean_last_10": scores, "best": scores | {"round": rounds}, "confusion": confusion,
            "seconds": 2.5 * rounds, "peak_memory_bytes": 10 ** 9}))
    return root


def png(side, dice):
    """A disc of some colour on another one."""
    inside, outside = (bytes(dice.randrange(256) for _ in range(3)) for _ in range(2))
    rows = [b"\0" + b"".join(inside if math.hypot(x - side / 2, y - side / 2) < side / 3 else outside for x in range(side)) for y in range(side)]
    chunk = lambda kind, content: struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    header = struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")


def sample(classes, dice):
    return {"truth": dice.randrange(classes), "answer": dice.randrange(classes), "confidence": dice.uniform(0.3, 1),
            "png": base64.b64encode(png(32, dice)).decode()}


def record(number, rounds, classes, groups, counts, dice, method, noise=0.0):
    learnt = 1 - math.exp(-4 * number / rounds) + (dice.gauss(0, noise) if noise else 0)
    help_for_rare = {"fedavg": 0.15, "fedgrab": 0.5}.get(method, 0.3)
    per_class = [min(1, max(0, learnt * (help_for_rare + (0.95 - help_for_rare) * (counts[c] / counts[0]) ** 0.5) + dice.gauss(0, 0.03))) for c in range(classes)]
    mean = lambda members: sum(per_class[c] for c in members) / len(members)
    line = {"round": number, "acc": {"all": mean(range(classes)), **{name: mean(members) for name, members in groups.items()},
                                     "per_class": per_class, "f1": mean(range(classes)) * 0.95},
            "loss": 2.3 * (1 - 0.8 * learnt) + dice.random() * 0.1, "test_loss": 2.3 * (1 - 0.7 * learnt), "clients": 10, "steps": 100, "samples": 1000,
            "bytes_up": 10 ** 6, "bytes_down": 10 ** 6, "seconds": 2.5, "phase_seconds": {"train": 2.0, "aggregate": 0.1, "evaluate": 0.4}}
    if method.startswith("fedgrab"):
        values = lambda middle: [middle + dice.gauss(0, 0.2) + c / classes for c in range(classes)]
        spread = lambda: [abs(dice.gauss(0, 0.1)) for _ in range(classes)]
        line |= {"delta": {"mean": values(-0.5), "std": spread()}, "beta": {"pos": values(1), "neg": values(1), "pos_std": spread(), "neg_std": spread()},
                 "prior": {"p": [count / sum(counts) * dice.uniform(0.7, 1.3) for count in counts], "l2": 0.4 * (1 - learnt) + 0.02, "tail_hit": min(1, learnt + 0.1)}}
    return line
