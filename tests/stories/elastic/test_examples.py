"""The shapes of Horovod's elastic examples, held against stock `horovodrun`: same samples, one writer, same weights.

Upstream's file below examples/elastic of Horovod 0.28.1, and what it asks of us that the others do not:

    pytorch/pytorch_imagenet_resnet50_elastic.py               the sampler is in the state; a broadcast at set-up
    pytorch/pytorch_mnist_elastic.py                           samplers that rank and size divide at set-up
    pytorch/pytorch_synthetic_benchmark_elastic.py             data of its own for each rank
    tensorflow/tensorflow_keras_mnist_elastic.py               Keras without a step at set-up, as TensorFlow 2 has it
    tensorflow2/tensorflow2_keras_mnist_elastic.py             a fit at set-up; checkpoints of rank 0
    tensorflow2/tensorflow2_mnist_elastic.py                   a loop over a data set that is skipped and cut
    tensorflow2/tensorflow2_synthetic_benchmark_elastic.py     collectives at set-up

The eighth script has the line that most Horovod scripts have, `Dataset.shard(hvd.size(), hvd.rank())`.

The scripts have upstream's dropout and shuffling. A seed for each rank makes trainings alike.
"""

import asyncio
from dataclasses import dataclass

import pytest

from bench.elastic.jobs import EXAMPLES, START, TORCH, TRAINING, in_phase, job, of_size, saved, slots
from bench.plane.errors import NeverCameError
from bench.plane.kubelet import Image
from tests.stories.elastic.conftest import QUIET
from tests.stories.elastic.support import diaries, horovodrun

pytestmark = pytest.mark.timeout(900)

SEED = 7


@dataclass(frozen=True)
class Example:
    """One script. samples: of an epoch, where its ranks divide them; 0 where each rank has its own order or data."""

    name: str
    image: str
    samples: int = 0

    def command(self, folder, *words):
        return (EXAMPLES / f"{self.name}.py", "--out", folder, "--seed", SEED, *words)

    def padding(self, size):
        """How many samples of an epoch a sampler repeats, so that all ranks have as many."""
        return -self.samples % size


IMAGENET = Example("pytorch_imagenet_resnet50_elastic", TORCH, 251)
MNIST = Example("pytorch_mnist_elastic", TORCH, 251)
KERAS = Example("tensorflow2_keras_mnist_elastic", TRAINING)
SHARD = Example("tensorflow2_shard_elastic", TRAINING, 240)

ALL = (
    IMAGENET,
    MNIST,
    Example("pytorch_synthetic_benchmark_elastic", TORCH),
    Example("tensorflow_keras_mnist_elastic", TRAINING),
    KERAS,
    Example("tensorflow2_mnist_elastic", TRAINING),
    Example("tensorflow2_synthetic_benchmark_elastic", TRAINING),
    SHARD,
)

each_example = pytest.mark.parametrize("example", ALL, ids=lambda own: own.name)


@pytest.fixture
def pythons(request, kubelet):
    """`pythons(image)`: the interpreter that the image stands for; PyTorch is looked for when it is first asked for."""

    def found(image):
        if image == TRAINING:
            return request.getfixturevalue("horovod_python")
        place = request.getfixturevalue("torch_python")
        kubelet.images[TORCH] = Image(path=[place.parent], env=QUIET)
        return place

    return found


@pytest.fixture(scope="module")
def of_stock(tmp_path_factory):
    """`await of_stock(python, example, size, *words)`: what stock Horovod makes of it, trained once for all tests."""
    known = {}

    async def trained(python, example, size, *words):
        if (example, size, words) not in known:
            place = tmp_path_factory.mktemp("stock")
            command = example.command(place / "told", *words)
            await asyncio.to_thread(horovodrun.train, python, size, command, place / "run", QUIET)
            known[example, size, words] = diaries.read(place / "told")
        return known[example, size, words]

    return trained


@pytest.fixture
def submitted(jobs, kubelet, pythons):
    """`await submitted(example, folder, *words, most=…, **spec)`: an elastic job of it, with so many nodes."""

    async def submit(example, folder, *words, least, most, **spec):
        pythons(example.image)
        await asyncio.to_thread(kubelet.add, slots(most))
        thing = job("example", least, most, *example.command(folder, *words), spec=spec)
        thing["spec"]["template"]["spec"]["containers"][0]["image"] = example.image
        await jobs.submit(thing)

    return submit


@pytest.fixture
def of_ours(jobs, submitted, tmp_path):
    """`await of_ours(example, size, *words)`: what an elastic job of a fixed size makes of it, without a loss."""

    async def trained(example, size, *words):
        await submitted(example, tmp_path / "told", *words, least=size, most=size)
        status = await jobs.until("example", in_phase("Succeeded", "Failed"))
        lost = await jobs.told("example", "WorkerLost")
        assert (status["phase"], status["restarts"], lost) == ("Succeeded", 0, [])
        return diaries.read(tmp_path / "told")

    return trained


def by_itself(diary, example, size):
    """What is wrong with a training, whatever stock makes of it."""
    found = [*diaries.one_for_each_rank(diary, size), *diaries.one_writer(diary)]
    if example.samples:
        found += diaries.all_divided(diaries.effective(diary), example.samples, example.padding(size))
    return found


def in_words(found):
    return "\n".join(found)


async def until_steps(folder, holds, within=START):
    """The steps that count, as soon as they hold. Raises NeverCameError."""
    steps: list[dict[str, object]] = []
    try:
        async with asyncio.timeout(within):
            while not (
                folder.exists() and (steps := diaries.effective(diaries.read(folder))) and holds(steps)
            ):
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise NeverCameError(f"no such steps within {within:g} s; the last ones are {steps[-3:]}") from None
    return steps


@pytest.mark.parametrize("example", [MNIST, SHARD], ids=lambda own: own.name)
async def test_samples_are_divided_and_one_rank_writes(example, of_ours):
    """Each of two workers hears its rank and size while it sets up: the samples are divided, and rank 0 alone writes."""
    wrong = by_itself(await of_ours(example, 2), example, 2)
    assert not wrong, in_words(wrong)


@pytest.mark.extended
@pytest.mark.parametrize("size", [2, 3])
@each_example
async def test_an_example_is_trained_as_by_stock(example, size, of_stock, of_ours, pythons):
    """Rank by rank the same samples in the same order, as many steps, and the same weights; one writer in both."""
    words = ("--broadcast-epoch",) if example is IMAGENET else ()
    stock = await of_stock(pythons(example.image), example, size, *words)
    wrong = by_itself(stock, example, size)
    assert not wrong, f"stock: {in_words(wrong)}"

    ours = await of_ours(example, size, *words)
    wrong = by_itself(ours, example, size)
    for judged in (diaries.as_long_as, diaries.same_samples, diaries.same_weights):
        wrong += judged(ours, stock)
    assert not wrong, in_words(wrong)


@pytest.fixture
def resized(jobs, submitted, tmp_path):
    """`await resized(example, *words)`: the steps that count of a job that has two workers, three, and two again."""
    told = tmp_path / "told"

    async def of_size_again(size):
        before = diaries.effective(diaries.read(told))[-1]["step"]

        def goes_on(steps):
            return steps[-1]["size"] == size and steps[-1]["step"] > before + 20

        return await until_steps(told, goes_on)

    async def trained(example, *words):
        words = ("--pause", 0.1, "--epochs", 10000, *words)
        await submitted(example, told, *words, least=2, most=3, workers=2)
        await jobs.until("example", of_size(2))
        steps = await until_steps(told, lambda steps: steps[-1]["step"] > 20)
        for size in (3, 2):
            await jobs.say("example", workers=size)
            await jobs.until("example", of_size(size))
            steps = await of_size_again(size)
        epoch = steps[-1]["epoch"]
        steps = await until_steps(told, lambda steps: steps[-1]["epoch"] > epoch + 1)
        assert await jobs.told("example", "WorkerLost") == []
        return steps

    return trained


@pytest.mark.extended
async def test_the_elastic_sampler_deals_at_every_size(resized):
    """From two workers to three and back, in the middle of epochs: no sample of an epoch is left out, and no more are
    trained twice than fill up its last step.
    """
    samples = 1201
    steps = await resized(IMAGENET, "--samples", samples, "--batch-size", 8)
    last = steps[-1]["epoch"]
    whole = [step for step in steps if step["epoch"] < last]
    assert {2, 3} in [{step["size"] for step in whole if step["epoch"] == each} for each in range(last)]
    wrong = [*diaries.all_divided(whole, samples, 2), *diaries.apart(whole, 2), *diaries.all_made(steps)]
    assert not wrong, in_words(wrong)


@pytest.mark.extended
async def test_samplers_of_the_set_up_are_dealt_again(resized):
    """PyTorch's own sampler divides the samples by the size that there is: in every epoch of one size all are trained."""
    steps = await resized(MNIST)
    wrong = [*diaries.all_made(steps), *diaries.apart(steps, 1)]
    epochs = diaries.by_size(steps)
    assert set(epochs) == {2, 3}
    for size, each in epochs.items():
        wrong += diaries.all_divided(each, MNIST.samples, MNIST.padding(size))
    assert not wrong, in_words(wrong)


@pytest.mark.extended
async def test_a_reset_callback_may_train(resized):
    """A worker that joins has made its step of the set-up alone, and takes part in the step of the others' callback."""
    wrong = diaries.all_made(await resized(KERAS, "--steps", 48))
    assert not wrong, in_words(wrong)


@pytest.mark.extended
@pytest.mark.parametrize("example", [MNIST, SHARD], ids=lambda own: own.name)
async def test_samples_are_divided_after_a_whole_new_start(example, jobs, kubelet, submitted, tmp_path):
    """All workers are killed. Those that begin again from the checkpoint hear their places too, and divide the samples.

    The data set that is skipped goes on where it was. The sampler's loop begins its epoch again from the front, by
    upstream's shape, so that only the epochs after it are complete.
    """
    told, kept = tmp_path / "told", tmp_path / "kept"
    words = ("--pause", 0.25, "--epochs", 4)
    checkpoint = {"path": str(kept), "every": "1s"}
    await submitted(example, told, *words, least=2, most=2, checkpoint=checkpoint)
    status = await jobs.until("example", of_size(2))
    await until_steps(told, lambda steps: steps[-1]["step"] > 6 and saved(kept) > 1)
    for rank in (0, 1):
        kubelet.kill(jobs.worker(status, rank))
    first = {process.token for process in diaries.read(told).processes}
    ended = await jobs.until("example", in_phase("Succeeded", "Failed"))
    assert (ended["phase"], ended["restarts"]) == ("Succeeded", 1)

    diary = diaries.read(told)
    begun = [one for one in diary.processes if one.steps and one.token not in first]
    again = diaries.Diary(begun, diary.writers)
    wrong = diaries.one_for_each_rank(again, 2)
    restored = diaries.effective(again)[0]
    assert restored["step"] > 1
    steps = diaries.effective(diary)
    wrong += diaries.apart(steps, example.padding(2))
    complete = restored["epoch"] + 1 if example is MNIST else 0
    rest = [step for step in steps if step["epoch"] >= complete]
    wrong += diaries.all_divided(rest, example.samples, example.padding(2))
    assert len({step["epoch"] for step in rest}) > 1
    assert not wrong, in_words(wrong)
