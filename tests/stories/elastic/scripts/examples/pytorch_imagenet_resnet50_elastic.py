"""The shape of Horovod's examples/elastic/pytorch/pytorch_imagenet_resnet50_elastic.py, in small.

Rank 0 is chosen at set-up: it logs, it shows progress, and it restores. The sampler is part of the state. It records
batches, commits and host checks alternate, and metrics are averaged in each step. With --broadcast-epoch the epoch to
go on from is broadcast at set-up, as in the example's twin that is not elastic.
"""

import json

import example_diary
import horovod.torch as hvd
import tiny_pictures
import torch
from torch.nn import functional

parser = example_diary.parser(__doc__)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--samples", type=int, default=251)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--batches-per-commit", type=int, default=4)
parser.add_argument("--batches-per-host-check", type=int, default=2)
parser.add_argument("--base-lr", type=float, default=0.0125)
parser.add_argument("--warmup-epochs", type=float, default=2)
parser.add_argument("--broadcast-epoch", action="store_true")


class Metric:
    """A mean over all batches of all ranks."""

    def __init__(self, name):
        self.name, self.sum, self.count = name, torch.tensor(0.0), 0

    def update(self, value):
        self.sum += hvd.allreduce(value.detach(), name=self.name)
        self.count += 1

    @property
    def mean(self):
        return float(self.sum / self.count)


class LogWriter:
    """A file that is made at set-up and grows, as TensorBoard's does."""

    def __init__(self, place):
        self.place = place
        self.place.touch()

    def add_scalar(self, name, value, epoch):
        with self.place.open("a") as file:
            file.write(json.dumps({"name": name, "value": value, "epoch": epoch}) + "\n")


def dataset(count, first=0):
    """Pictures, classes, and the number of each sample."""
    shown, classes = tiny_pictures.pictures(count, first)
    whole = torch.from_numpy(shown).unsqueeze(1), torch.from_numpy(classes), torch.arange(count)
    return torch.utils.data.TensorDataset(*whole)


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(72, 10),
    )


def accuracy(output, target):
    return output.argmax(1).eq(target).float().mean()


def adjust_rate(epoch, batch):
    """From the rate of one worker to that of all of them, over the first epochs."""
    scale = 1.0
    if epoch < options.warmup_epochs:
        passed = epoch + (batch + 1) / len(train_loader)
        scale = (passed * (hvd.size() - 1) / options.warmup_epochs + 1) / hvd.size()
    for group in optimizer.param_groups:
        group["lr"] = options.base_lr * hvd.size() * scale


def train(state):
    model.train()
    loss_of, right = Metric("train_loss"), Metric("train_accuracy")
    offset = state.batch
    for number, (shown, target, chosen) in enumerate(train_loader):
        state.batch = offset + number
        if state.batch % options.batches_per_commit == 0:
            state.commit()
        elif state.batch % options.batches_per_host_check == 0:
            state.check_host_updates()
        adjust_rate(state.epoch, state.batch)
        optimizer.zero_grad()
        output = model(shown)
        right.update(accuracy(output, target))
        loss = functional.cross_entropy(output, target)
        loss_of.update(loss)
        loss.backward()
        state.train_sampler.record_batch(number, options.batch_size)
        optimizer.step()
        diary.took(state.step, state.epoch, chosen, hvd.rank(), hvd.size())
        state.step += 1
        if verbose:
            print(f"epoch {state.epoch} batch {state.batch} loss {loss_of.mean:.4f}", flush=True)
    if log_writer and loss_of.count:
        log_writer.add_scalar("train/loss", loss_of.mean, state.epoch)
        log_writer.add_scalar("train/accuracy", right.mean, state.epoch)
    state.commit()


def validate(epoch):
    model.eval()
    loss_of, right = Metric("val_loss"), Metric("val_accuracy")
    with torch.no_grad():
        for shown, target, _ in val_loader:
            output = model(shown)
            loss_of.update(functional.cross_entropy(output, target))
            right.update(accuracy(output, target))
    if log_writer:
        log_writer.add_scalar("val/loss", loss_of.mean, epoch)
        log_writer.add_scalar("val/accuracy", right.mean, epoch)


def save_checkpoint(epoch):
    if hvd.rank() == 0:
        kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(kept, diary.place(f"checkpoint-{epoch + 1}.pt"))


def end_epoch(state):
    state.epoch += 1
    state.batch = 0
    state.train_sampler.set_epoch(state.epoch)
    state.commit()


@hvd.elastic.run
def full_train(state):
    while state.epoch < options.epochs:
        train(state)
        validate(state.epoch)
        save_checkpoint(state.epoch)
        end_epoch(state)


if __name__ == "__main__":
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(options.seed)
    diary = example_diary.Diary(options, hvd.rank(), hvd.size())
    verbose = hvd.rank() == 0
    log_writer = LogWriter(diary.place("log.jsonl")) if hvd.rank() == 0 else None
    torch.set_num_threads(1)

    train_dataset = dataset(options.samples)
    train_sampler = hvd.elastic.ElasticSampler(train_dataset)
    train_loader = torch.utils.data.DataLoader(train_dataset, options.batch_size, sampler=train_sampler)
    val_dataset = dataset(50, options.samples)
    val_sampler = hvd.elastic.ElasticSampler(val_dataset)
    val_loader = torch.utils.data.DataLoader(val_dataset, options.batch_size, sampler=val_sampler)

    model = network()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=options.base_lr * hvd.size(), momentum=0.9, weight_decay=0.00005
    )
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    resume_from = 0
    if hvd.rank() == 0:
        done = [epoch for epoch in range(options.epochs, 0, -1) if diary.others(f"checkpoint-{epoch}.pt")]
        resume_from = done[0] if done else 0
    if options.broadcast_epoch:
        resume_from = int(hvd.broadcast(torch.tensor(resume_from), 0, name="resume_from"))
    if resume_from and hvd.rank() == 0:
        kept = torch.load(diary.others(f"checkpoint-{resume_from}.pt")[-1])
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])

    elastic = hvd.elastic.TorchState(
        model=model,
        optimizer=optimizer,
        train_sampler=train_sampler,
        val_sampler=val_sampler,
        epoch=resume_from,
        batch=0,
        step=0,
    )
    full_train(elastic)
    diary.end(model.state_dict().values(), elastic.step, hvd.rank(), hvd.size())
