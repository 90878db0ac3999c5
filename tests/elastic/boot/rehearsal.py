"""Programs for `ring.holds`: a training is done with a rehearsal and without one, and both end alike."""

from tests.elastic.boot.ring import CARRIED

BOTH = f"""{CARRIED}
import os, random, types
import numpy as np
from carried.boot import errors, frameworks, warmup
from carried.boot.progress import Progress

STEPS = 4
alone = types.SimpleNamespace(warming=False, progress=Progress())

def commit():
    if alone.warming:
        os.environ["REHEARSED"] = "1"
        raise errors.Interrupted

def both(script):
    '''What `script` gives for a training with a rehearsal and without: it returns (function, state, result).'''
    found = []
    for warm in (True, False):
        train, state, result = script()
        framework = frameworks.of(state)
        framework.prepare()
        framework.sync(None)
        if warm:
            before = result()
            warmup.run(alone, framework, train, (), {{}})
            now = result()
            assert os.environ.pop("REHEARSED")
            assert str(now) == str(before), (now, before)
        train(state)
        found.append(result())
    return found
"""

TORCH = f"""{BOTH}
import copy
import torch
import horovod.torch as hvd
hvd.init()
torch.set_num_threads(1)

def script():
    torch.manual_seed(1)
    random.seed(2)
    net = torch.nn
    model = net.Sequential(net.Linear(4, 8), net.BatchNorm1d(8), net.Dropout(0.5), net.Linear(8, 1))
    average, scaled = copy.deepcopy(model), torch.zeros(1)
    model.eval()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), model.named_parameters())
    other = torch.optim.Adam(average.parameters())
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    mixed = torch.Generator()
    data = torch.utils.data.TensorDataset(torch.randn(64, 4))
    loader = torch.utils.data.DataLoader(data, 8, shuffle=True, generator=mixed)
    losses = []
    waited = 0

    def train(state):
        nonlocal waited
        model.train()
        while state.step < STEPS:
            for x, in loader:
                x = x + random.random()
                optimizer.zero_grad()
                loss = model(x).pow(2).mean()
                loss.backward()
                optimizer.step()
                rates.step()
                scaled.add_(loss.detach())
                losses.append(loss.detach())
                waited += 1
                average(x).sum().backward()
                other.step()
                with torch.no_grad():
                    for mine, theirs in zip(average.parameters(), model.parameters()):
                        mine.mul_(0.9).add_(theirs, alpha=0.1)
                state.step += 1
                commit()

    def result():
        return dict(
            weights=[one.tolist() for each in (model, average) for one in each.state_dict().values()],
            grads=[one.grad is None or one.grad.tolist() for one in (*model.parameters(), *average.parameters())],
            slots=[one.state_dict() for one in (optimizer, other, rates)],
            chance=[torch.get_rng_state().sum(), mixed.get_state().sum()],
            rest=[waited, losses, scaled, model.training, optimizer._handles, optimizer._synchronized],
        )

    return train, hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0), result

one, other = both(script)
assert str(one) == str(other), (one, other)
"""
