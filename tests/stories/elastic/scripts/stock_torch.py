"""A stock elastic-Horovod script for PyTorch: the public API of both, with Horovod's sampler, and nothing else.

A small classifier of points in a spiral, made from a seed. Prints a JSON line per step.
"""

import argparse
import json
import time

import horovod.torch as hvd
import torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=1000)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--sleep", type=float, default=0.0, help="seconds added to every step")
parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
parser.add_argument("--samples", type=int, default=4096)
parser.add_argument("--hidden", type=int, default=64)
options = parser.parse_args()

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(7)


def spiral(count):
    """Points of two arms, and which arm."""
    arm = torch.randint(0, 2, (count,))
    turn = torch.rand(count) * 2.8 + 0.2
    angle = turn * 2.5 + arm * torch.pi
    return torch.stack([turn * torch.cos(angle), turn * torch.sin(angle)], 1), arm


data = torch.utils.data.TensorDataset(*spiral(options.samples), torch.arange(options.samples))
sampler = hvd.elastic.ElasticSampler(data)
loader = torch.utils.data.DataLoader(data, options.batch, sampler=sampler)
model = torch.nn.Sequential(
    torch.nn.Linear(2, options.hidden),
    torch.nn.BatchNorm1d(options.hidden),
    torch.nn.ReLU(),
    torch.nn.Linear(options.hidden, 2),
)
if options.optimizer == "sgd":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
else:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


@hvd.elastic.run
def train(state):
    while state.epoch < options.epochs:
        for number, (x, y, chosen) in enumerate(loader):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            time.sleep(options.sleep)
            optimizer.step()
            state.sampler.record_batch(number, options.batch)
            state.step += 1
            print(json.dumps(told(state, float(loss), chosen)), flush=True)
            state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


def told(state, loss, chosen):
    return {
        "step": state.step,
        "epoch": state.epoch,
        "loss": loss,
        "rank": hvd.rank(),
        "size": hvd.size(),
        "chosen": chosen.tolist(),
        "sum": float(sum(own.abs().double().sum() for own in model.parameters())),
    }


train(hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, step=0))
if hvd.rank() == 0:
    print(json.dumps({"finished": options.epochs}), flush=True)
