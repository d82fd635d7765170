"""The structure of the published Fed-GraB code: a DataLoader with transforms and a deep copy of the model per client and round,
the balancer as Python operations on every step, averaging of state dictionaries. Written anew; nothing of it is copied."""
import copy

import torch
import workload as w


class ClientImages(torch.utils.data.Dataset):
    """Transforms one image at a time on the CPU, as torchvision's datasets do."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = torch.from_numpy(self.images[index]).float() / 255
        padded = torch.nn.functional.pad(image, (4, 4, 4, 4))
        top, left = torch.randint(0, 9, (2,)).tolist()
        image = padded[:, top : top + 32, left : left + 32]
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        return (image - 0.5) / 0.25, int(self.labels[index])


class Balancer:
    """One PID controller per class, on accumulated positive and negative gradients."""

    def __init__(self, classes, device):
        self.positive, self.negative, self.last, self.sum = torch.zeros(4, classes, device=device)

    def gradient(self, logits, labels):
        target = torch.nn.functional.one_hot(labels, logits.shape[1]).float()
        error = self.negative - self.positive
        self.sum = self.sum + error
        output = 10 * error + 0.01 * self.sum + 0.1 * (error - self.last)
        self.last = error
        rise, fall = 10 / (1 + 9 * torch.exp(-0.5 * output)), 10 / (1 + 9 * torch.exp(0.5 * output))
        gradient = (torch.sigmoid(logits) - target) * (target * rise + (1 - target) * fall) / len(labels)
        self.positive = self.positive + (gradient.abs() * target).sum(0)
        self.negative = self.negative + (gradient.abs() * (1 - target)).sum(0)
        return gradient


def run(work, device, rounds):
    torch.manual_seed(1)
    data = work.data()
    balancers = [Balancer(10, device) for _ in range(work.clients)]
    model = w.network(work.network).to(device)

    def train_client(client):
        local = copy.deepcopy(model)
        local.train()
        optimizer = torch.optim.SGD(local.parameters(), work.lr, work.momentum)
        loader = torch.utils.data.DataLoader(ClientImages(*data[client]), work.batch, shuffle=True)
        losses = []
        for _ in range(work.epochs):
            for images, labels in loader:
                images, labels = images.to(device), labels.to(device)
                local.zero_grad()
                logits = local(images)
                gradient = balancers[client].gradient(logits.detach(), labels)
                logits.backward(gradient)
                optimizer.step()
                losses.append(gradient.abs().sum().item())
        return local.state_dict()

    def train_round(cohort):
        states = [copy.deepcopy(train_client(client)) for client in cohort]
        total = sum(work.sizes[client] for client in cohort)
        mean = copy.deepcopy(states[0])
        for name in mean:
            mean[name] = sum(state[name] * (work.sizes[client] / total) for state, client in zip(states, cohort))
        model.load_state_dict(mean)

    return w.timed(work, rounds, device, train_round)


if __name__ == "__main__":
    w.main(run, lambda: f"PyTorch {torch.__version__}")
