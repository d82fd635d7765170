"""Three long-tailed losses in a plain PyTorch loop, with fedgrab.torch: no compiled code, any PyTorch from 1.13 on.

Five clouds of points in the plane that overlap with their neighbours; the first has 100 times as many points as the last. It prints the
accuracy of each class on a balanced test set, the mean over three starts, as docs/tutorial/sgb_in_your_loop.cpp does.
"""

import math

import torch

import fedgrab.torch

COUNTS = [2000, 632, 200, 63, 20]


def draw_points(counts):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    angles = 2 * math.pi * labels / len(counts)
    return torch.stack([angles.cos(), angles.sin()], 1) + 0.5 * torch.randn(len(labels), 2), labels


def train(points, labels, criterion, seed):
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, len(COUNTS)))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5)
    for _ in range(10):
        for batch in torch.randperm(len(labels)).split(16):
            loss = criterion(net(points[batch]), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return net


def main():
    torch.manual_seed(0)
    points, labels = draw_points(COUNTS)
    test_points, test_labels = draw_points([1000] * len(COUNTS))
    counts = torch.bincount(labels)
    losses = {"cross-entropy": lambda: torch.nn.CrossEntropyLoss(), "SGBLoss": lambda: fedgrab.torch.SGBLoss(len(COUNTS)),
              "BalancedSoftmax": lambda: fedgrab.torch.BalancedSoftmax(counts)}
    nets = {name: [train(points, labels, loss(), seed) for seed in (1, 2, 3)] for name, loss in losses.items()}
    prior = fedgrab.torch.prior_from_weights(nets["cross-entropy"][0][-1].weight, "rank")
    adjustment = fedgrab.torch.LogitAdjustment(counts)
    nets["LogitAdjustment"] = [torch.nn.Sequential(net, adjustment) for net in nets["cross-entropy"]]

    print(f"{'points':16}" + "".join(f"{count:8}" for count in COUNTS) + "     all")
    for name, trained in nets.items():
        right = torch.stack([(net(test_points).argmax(1) == test_labels).float() for net in trained]).mean(0)
        accuracy = right.view(len(COUNTS), -1).mean(1)
        print(f"{name:16}" + "".join(f"{share:8.3f}" for share in accuracy) + f"{accuracy.mean():8.3f}")
    print("DPA's prior of the first net, by rank:", " ".join(f"{share:.2f}" for share in prior.tolist()))


if __name__ == "__main__":
    main()
