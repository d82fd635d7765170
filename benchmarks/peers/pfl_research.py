"""pfl-research: its simulated backend with federated averaging, user data on the device."""
import importlib.metadata
import time

import torch
import workload as w
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.algorithm.base import NNAlgorithmParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops.pytorch_ops import get_default_device
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel


class Classifier(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images):
        return self.network(images)

    def loss(self, images, labels, eval=False):  # noqa: A002 (the name is pfl's)
        self.train(not eval)
        return torch.nn.functional.cross_entropy(self(images), labels)

    def metrics(self, images, labels, eval=True):  # noqa: A002
        return {"loss": Weighted(self.loss(images, labels, eval).item() * len(labels), len(labels))}


class RoundTimes(TrainingProcessCallback):
    def __init__(self):
        self.seconds, self.start = [], time.perf_counter()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        w.wait_for(get_default_device().type)
        now = time.perf_counter()
        self.seconds.append(now - self.start)
        self.start = now
        return False, None


def run(work, device, rounds):
    torch.manual_seed(1)
    if get_default_device().type != device:
        raise SystemExit(f"pfl-research uses {get_default_device().type} on this machine")
    data = [((torch.from_numpy(x).to(device).float() - 127.5) / 64, torch.from_numpy(y).to(device)) for x, y in work.data()]
    users = FederatedDataset(lambda user: Dataset(data[user], user_id=user),
                             get_user_sampler("random", list(range(work.clients))))
    network = Classifier(w.network(work.network)).to(device)
    model = PyTorchModel(network, lambda parameters, lr: torch.optim.SGD(parameters, lr, work.momentum),
                         torch.optim.SGD(network.parameters(), 1.0))
    backend = SimulatedBackend(training_data=users, val_data=users, postprocessors=[WeightByDatapoints()])
    times = RoundTimes()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(central_num_iterations=rounds + 1, evaluation_frequency=rounds + 10,
                                           train_cohort_size=work.per_round, val_cohort_size=0),
        backend=backend, model=model,
        model_train_params=NNTrainHyperParams(local_num_epochs=work.epochs, local_learning_rate=work.lr,
                                              local_batch_size=work.batch),
        model_eval_params=NNEvalHyperParams(local_batch_size=100), callbacks=[times])
    return w.report(work, times.seconds[1:])


if __name__ == "__main__":
    w.main(run, lambda: f"pfl {importlib.metadata.version('pfl')}, PyTorch {torch.__version__}")
