"""The shape of Horovod's examples/elastic/pytorch/pytorch_mnist_elastic.py, in small.

The samplers are PyTorch's own. They divide the data by the rank and size that the script hears while it sets up. The
learning rate follows the size through a reset callback. After the training all ranks average what they found.
"""

import example_diary
import horovod.torch as hvd
import tiny_pictures
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data.distributed import DistributedSampler

parser = example_diary.parser(__doc__)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--lr", type=float, default=0.01)
options = parser.parse_args()

hvd.init()
torch.manual_seed(options.seed)
torch.set_num_threads(1)
diary = example_diary.Diary(options, hvd.rank(), hvd.size())


def dealt(count, first, batch):
    """The data set as this rank has it: its sampler, its loader."""
    shown, classes = tiny_pictures.pictures(count, first)
    whole = torch.from_numpy(shown).unsqueeze(1), torch.from_numpy(classes), torch.arange(count)
    data = torch.utils.data.TensorDataset(*whole)
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    return sampler, torch.utils.data.DataLoader(data, batch_size=batch, sampler=sampler)


train_sampler, train_loader = dealt(251, 0, options.batch_size)
test_sampler, test_loader = dealt(50, 251, 25)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.drop = nn.Dropout2d()
        self.fc1 = nn.Linear(72, 24)
        self.fc2 = nn.Linear(24, 10)

    def forward(self, x):
        x = functional.relu(functional.max_pool2d(self.drop(self.conv(x)), 2)).flatten(1)
        x = functional.dropout(functional.relu(self.fc1(x)), training=self.training)
        return functional.log_softmax(self.fc2(x), 1)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr * hvd.size(), momentum=0.5)


def average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, options.epochs + 1):  # noqa: B020 - upstream's own loop
        state.model.train()
        train_sampler.set_epoch(state.epoch)
        remaining = len(train_loader) - state.batch
        for state.batch, (shown, target, chosen) in enumerate(train_loader):
            if state.batch >= remaining:
                break
            state.optimizer.zero_grad()
            loss = functional.nll_loss(state.model(shown), target)
            loss.backward()
            state.optimizer.step()
            diary.took(state.step, state.epoch, chosen, hvd.rank(), hvd.size())
            state.step += 1
            state.commit()
        state.batch = 0


def test():
    model.eval()
    lost, right = 0.0, 0.0
    with torch.no_grad():
        for shown, target, _ in test_loader:
            output = model(shown)
            lost += functional.nll_loss(output, target, reduction="sum").item()
            right += output.argmax(1).eq(target).float().sum().item()
    lost = average(lost / len(test_sampler), "avg_loss")
    right = average(right / len(test_sampler), "avg_accuracy")
    if hvd.rank() == 0:
        diary.place("result.txt").write_text(f"average loss {lost:.4f}, accuracy {right:.4f}\n")


optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def on_state_reset():
    for group in optimizer.param_groups:
        group["lr"] = options.lr * hvd.size()


elastic = hvd.elastic.TorchState(model, optimizer, epoch=1, batch=0, step=0)
elastic.register_reset_callbacks([on_state_reset])
train(elastic)
test()
diary.end(model.state_dict().values(), elastic.step, hvd.rank(), hvd.size())
