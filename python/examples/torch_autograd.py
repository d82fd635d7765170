"""SGB in a PyTorch loop of your own: three lines, marked (1), (2) and (3). Everything else is plain PyTorch.

Five clouds of points in the plane that overlap with their neighbours; the first has 100 times as many points as the last. It prints the
accuracy of each class on a balanced test set, the mean over three starts, as docs/tutorial/sgb_in_your_loop.cpp does. It needs a fedgrab that
was built with this PyTorch's LibTorch (docs/python.md).
"""

import math

import numpy as np
import torch

import fedgrab

COUNTS = [2000, 632, 200, 63, 20]


class Balanced(torch.autograd.Function):
    """The same as a loss, for loops that insist on `loss.backward()`: SGB's gradient times what comes from above."""

    @staticmethod
    def forward(ctx, logits, labels, balancer):
        loss, gradient = balancer.step(logits.detach().cpu().numpy(), labels.cpu().numpy())
        ctx.save_for_backward(torch.from_numpy(gradient).to(logits.device))
        return logits.new_tensor(loss)

    @staticmethod
    def backward(ctx, above):
        return ctx.saved_tensors[0] * above, None, None


def draw_points(counts):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    angles = 2 * math.pi * labels / len(counts)
    return torch.stack([angles.cos(), angles.sin()], 1) + 0.5 * torch.randn(len(labels), 2), labels


def train(points, labels, form, seed):
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, len(COUNTS)))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5)
    balancer = fedgrab.Balancer(len(COUNTS))  # (1) one per model; it remembers what each class has collected
    for _ in range(10):
        for batch in torch.randperm(len(labels)).split(16):
            logits = net(points[batch])
            optimiser.zero_grad()
            if form == "three lines":
                loss, gradient = balancer.step(logits.detach().numpy(), labels[batch].numpy())  # (2) instead of a criterion
                logits.backward(torch.from_numpy(gradient))  # (3) instead of loss.backward()
            elif form == "a function":
                Balanced.apply(logits, labels[batch], balancer).backward()
            else:
                torch.nn.functional.cross_entropy(logits, labels[batch]).backward()
            optimiser.step()
    return net


def main():
    torch.manual_seed(0)
    points, labels = draw_points(COUNTS)
    test_points, test_labels = draw_points([1000] * len(COUNTS))
    print(f"{'points':14}" + "".join(f"{count:8}" for count in COUNTS) + "     all")
    rows = {}
    for form in ("cross-entropy", "three lines", "a function"):
        nets = [train(points, labels, form, seed) for seed in (1, 2, 3)]
        right = torch.stack([(net(test_points).argmax(1) == test_labels).float() for net in nets]).mean(0)
        rows[form] = right.view(len(COUNTS), -1).mean(1)
        print(f"{form:14}" + "".join(f"{share:8.3f}" for share in rows[form]) + f"{rows[form].mean():8.3f}")
        if form == "cross-entropy":
            prior = fedgrab.prior(nets[0][-1].weight.detach().numpy(), "share")
    print("DPA's prior of the plain net:", np.round(prior, 2))
    assert torch.equal(rows["three lines"], rows["a function"])


if __name__ == "__main__":
    main()
