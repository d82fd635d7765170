"""Flower's simulation: one NumPyClient per client; as many at once as there are cores, or one on a GPU."""
import importlib.metadata
import time

import torch
import workload as w
from flwr.client import ClientApp, NumPyClient
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation


def arrays_of(model):
    return [value.cpu().numpy() for value in model.state_dict().values()]


class Client(NumPyClient):
    def __init__(self, work, device, images, labels):
        self.work, self.device, self.images, self.labels = work, device, images, labels

    def fit(self, parameters, config):
        work, device = self.work, self.device
        torch.set_num_threads(1)
        model = w.network(work.network).to(device)
        names = model.state_dict().keys()
        model.load_state_dict({name: torch.tensor(value) for name, value in zip(names, parameters)})
        images = (torch.from_numpy(self.images).to(device).float() - 127.5) / 64
        labels = torch.from_numpy(self.labels).to(device)
        optimizer = torch.optim.SGD(model.parameters(), work.lr, work.momentum)
        for _ in range(work.epochs):
            for indices in torch.randperm(len(labels), device=device).split(work.batch):
                optimizer.zero_grad(set_to_none=True)
                torch.nn.functional.cross_entropy(model(images[indices]), labels[indices]).backward()
                optimizer.step()
        return arrays_of(model), len(labels), {}


class Timed(FedAvg):
    """Notes the time at which each round has been aggregated."""

    ends: list = []

    def aggregate_fit(self, server_round, results, failures):
        if failures:
            raise RuntimeError(f"{len(failures)} clients failed: {failures[0]}")
        aggregated = super().aggregate_fit(server_round, results, failures)
        Timed.ends.append(time.perf_counter())
        return aggregated


def run(work, device, rounds):
    torch.manual_seed(1)
    data = work.data()
    initial = ndarrays_to_parameters(arrays_of(w.network(work.network)))

    def client(context):
        return Client(work, device, *data[int(context.node_config["partition-id"])]).to_client()

    def server(context):
        strategy = Timed(fraction_fit=work.per_round / work.clients, fraction_evaluate=0, min_fit_clients=work.per_round,
                         min_available_clients=work.clients, initial_parameters=initial)
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds + 1))

    resources = {"num_cpus": 1, "num_gpus": 1.0 if device == "cuda" else 0.0}
    run_simulation(ServerApp(server_fn=server), ClientApp(client_fn=client), work.clients,
                   backend_config={"client_resources": resources})
    ends = Timed.ends
    return w.report(work, [after - before for before, after in zip(ends, ends[1:])])


if __name__ == "__main__":
    w.main(run, lambda: f"flwr {importlib.metadata.version('flwr')}, PyTorch {torch.__version__}")
