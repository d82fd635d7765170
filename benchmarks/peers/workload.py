"""The workloads, the same for every peer: networks, images by client, settings; and how a peer is timed."""
import dataclasses
import json
import statistics
import time

import numpy as np


@dataclasses.dataclass
class Workload:
    network: str
    clients: int
    per_round: int
    epochs: int
    batch: int
    lr: float
    momentum: float
    sizes: list

    def data(self):
        """Images (uint8, N x 3 x 32 x 32) and labels of every client."""
        random = np.random.default_rng(1)
        return [(random.integers(0, 256, (size, 3, 32, 32), dtype=np.uint8), random.integers(0, 10, size))
                for size in self.sizes]

    def cohort(self, round_):
        return np.random.default_rng(1000 + round_).permutation(self.clients)[: self.per_round]

    def steps(self, cohort):
        return sum(self.epochs * -(-self.sizes[client] // self.batch) for client in cohort)


def long_tail_sizes(clients):
    """Client sizes of CIFAR-10-LT, IF 100, each class spread over the clients by Dirichlet(1)."""
    random = np.random.default_rng(1)
    sizes = np.zeros(clients, dtype=int)
    for label in range(10):
        sizes += random.multinomial(int(5000 * 100 ** (-label / 9)), random.dirichlet(np.ones(clients)))
    return np.maximum(sizes, 1).tolist()


def workload(name):
    if name == "pfl":
        return Workload("cnn", 1000, 50, 1, 10, 0.1, 0.0, [50] * 1000)
    if name in ("paper", "paper32"):
        return Workload("resnet18", 40, 40, 5, 5 if name == "paper" else 32, 0.03, 0.5, long_tail_sizes(40))
    raise SystemExit(f"workload {name}: pfl, paper and paper32 are known")


def network(name):
    import torch.nn as nn

    if name == "cnn":  # 1,626,442 parameters
        return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Dropout(0.25), nn.Flatten(), nn.Linear(12544, 128), nn.ReLU(), nn.Dropout(0.5),
                             nn.Linear(128, 10))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            same = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if same else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + self.shortcut(x))

    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def wait_for(device):
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def timed(work, rounds, device, train_round):
    """Seconds of each round after the first, which warms up."""
    seconds = []
    for round_ in range(rounds + 1):
        cohort = work.cohort(round_)
        wait_for(device)
        start = time.perf_counter()
        train_round(cohort)
        wait_for(device)
        seconds.append(time.perf_counter() - start)
    return report(work, seconds[1:])


def report(work, seconds):
    steps = statistics.fmean(work.steps(work.cohort(round_)) for round_ in range(1, len(seconds) + 1))
    return {"rounds": len(seconds), "seconds_per_round": statistics.median(seconds), "steps_per_round": steps,
            "ms_per_step": 1e3 * statistics.median(seconds) / steps}


def main(run, version):
    """The command line of a peer: WORKLOAD DEVICE ROUNDS; prints one line of JSON."""
    import sys

    name, device, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(json.dumps(run(workload(name), device, rounds) | {"version": version()}))
