"""A plain PyTorch loop: one model on the device, the data of every client on the device."""
import torch
import workload as w


def run(work, device, rounds):
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    data = [((torch.from_numpy(x).to(device).float() - 127.5) / 64, torch.from_numpy(y).to(device)) for x, y in work.data()]
    model = w.network(work.network).to(device)
    loss = torch.nn.CrossEntropyLoss()
    state = {name: value.clone() for name, value in model.state_dict().items()}

    def train_client(images, labels):
        model.load_state_dict(state)
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), work.lr, work.momentum)
        for _ in range(work.epochs):
            for indices in torch.randperm(len(labels), device=device).split(work.batch):
                optimizer.zero_grad(set_to_none=True)
                loss(model(images[indices]), labels[indices]).backward()
                optimizer.step()

    def train_round(cohort):
        nonlocal state
        total = sum(work.sizes[client] for client in cohort)
        mean = {name: torch.zeros_like(value, dtype=torch.float) for name, value in state.items()}
        for client in cohort:
            train_client(*data[client])
            for name, value in model.state_dict().items():
                mean[name] += value * (work.sizes[client] / total)
        state = {name: value.to(state[name].dtype) for name, value in mean.items()}

    return w.timed(work, rounds, device, train_round)


if __name__ == "__main__":
    w.main(run, lambda: f"PyTorch {torch.__version__}")
