"""The shape of Horovod's examples/elastic/pytorch/pytorch_synthetic_benchmark_elastic.py, in small.

Every rank makes its own batch at set-up and trains on it again and again. Rank 0 alone reports. The state holds a
list of measured rates, and flags that say how far the benchmark is.
"""

import timeit

import example_diary
import horovod.torch as hvd
import numpy as np
import torch

parser = example_diary.parser(__doc__)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--num-warmup-batches", type=int, default=4)
parser.add_argument("--num-batches-per-iter", type=int, default=4)
parser.add_argument("--num-iters", type=int, default=4)
parser.add_argument("--num-batches-per-commit", type=int, default=1)
options = parser.parse_args()

hvd.init()
torch.manual_seed(options.seed)
torch.set_num_threads(1)
diary = example_diary.Diary(options, hvd.rank(), hvd.size())

model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3),
    torch.nn.BatchNorm2d(8),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(288, 10),
)
lr = 0.01
optimizer = torch.optim.SGD(model.parameters(), lr=lr * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

# Upstream has no seed, so that its ranks have different data; here rank and seed choose them.
own = torch.Generator().manual_seed(1000 * options.seed + hvd.rank())
data = torch.randn(options.batch_size, 1, 8, 8, generator=own)
target = torch.randint(0, 10, (options.batch_size,), generator=own)
numbers = hvd.rank() * options.batch_size + np.arange(options.batch_size)


def benchmark_step(state):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    diary.took(state.step, state.iter, numbers, hvd.rank(), hvd.size())
    state.step += 1
    state.batch += 1
    if state.batch == options.num_batches_per_commit:
        state.batch = 0
        state.commit()


def log(text):
    if hvd.rank() == 0:
        with diary.place("log.txt").open("a") as file:
            file.write(f"{text}\n")


log(f"processes: {hvd.size()}")


@hvd.elastic.run
def run_benchmark(state):
    if not state.warm:
        timeit.timeit(lambda: benchmark_step(state), number=options.num_warmup_batches)
        state.warm = True
        state.commit()
    for turn in range(state.iter, options.num_iters):
        seconds = timeit.timeit(lambda: benchmark_step(state), number=options.num_batches_per_iter)
        rate = options.batch_size * options.num_batches_per_iter / seconds
        log(f"iteration {turn}: {rate:.1f} pictures a second")
        state.img_secs.append(rate)
        state.iter = turn
        state.commit()


def on_state_reset():
    for group in optimizer.param_groups:
        group["lr"] = lr * hvd.size()


elastic = hvd.elastic.TorchState(model, optimizer, img_secs=[], iter=0, batch=0, warm=False, step=0)
elastic.register_reset_callbacks([on_state_reset])
run_benchmark(elastic)
log(f"{hvd.size()} processes: {hvd.size() * np.mean(elastic.img_secs):.1f} pictures a second")
diary.end(model.state_dict().values(), elastic.step, hvd.rank(), hvd.size())
