"""What the runtime makes of each framework's states and steps, in one process with real Horovod: programs of assertions."""

import pytest

from tests.stories.elastic.horovod.support import rehearsal
from tests.stories.elastic.horovod.support.ring import CARRIED, holds

MARKED_ALONE = f"""{CARRIED}
import os
os.environ["HOROVOD_ELASTIC"] = "1"
from carried.runtime import import_hook, round_assignment, script_setup, step_timer
script_setup._told = round_assignment.Place(0, 1, joins=False)  # as an agent would say
import_hook.install()
import tensorflow as tf
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as keras_hvd
hvd.init()
stamp = step_timer.start()
model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
optimizer = tf.keras.optimizers.SGD(0.1)

def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones((1, 3))))
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

def marks(one):
    one()
    seen = stamp.last()
    one()
    return stamp.last() != seen

assert marks(step), "eager"
traced = tf.function(step)
assert marks(traced), "graph"
outside = {{one.type for one in traced.get_concrete_function().graph.get_operations()}}
assert "Timestamp" not in outside, "Horovod's operations would be put in order with it, and wait for the last gradient"
model.compile(keras_hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
assert marks(lambda: model.fit(tf.ones((4, 3)), tf.ones((4, 2)), verbose=0)), "fit"
"""
"""Steps of a worker that trains alone, as in its warm-up: Horovod reduces nothing there."""

TENSORS_OF_TENSORFLOW = f"""{CARRIED}
import tensorflow as tf
import horovod.tensorflow as hvd
from carried.runtime import frameworks, state_codec
hvd.init()
count, best = tf.Variable(7), tf.constant(0.5)
model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
state = hvd.elastic.TensorFlowKerasState(model, tf.keras.optimizers.Adam(), count=count, best=best, step=7)
framework = frameworks.of(state)
framework.prepare()
kept = state_codec.pack(framework.export(), framework.as_array)
count.assign(0)
state.best, state.step = tf.constant(9.0), 0
framework.load(state_codec.unpack(*kept))
assert state.count is count and int(count) == 7, state.count
assert tf.is_tensor(state.best) and float(state.best) == 0.5, state.best
assert state.step == 7
"""
"""A variable and a tensor that are no model's, among the plain values of a state."""

OLD_OPTIMIZER = f"""{CARRIED}
import tensorflow as tf
import horovod.tensorflow as hvd
from carried.runtime import frameworks
from carried.runtime.rehearsal_snapshot import Snapshot
hvd.init()
model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
framework = frameworks.of(hvd.elastic.TensorFlowKerasState(model, optimizer, step=7))
framework.prepare()
with framework.undone(Snapshot(lambda: None, framework.state)):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones((1, 3))))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
assert len(framework.shapes()) > 2, framework.shapes()
"""
"""An optimizer of TensorFlow 1, which makes its slots in the first step."""

KEPT_EXACTLY = f"""{CARRIED}
import torch
import horovod.torch as hvd
from carried.runtime import frameworks, state_codec
hvd.init()
model = torch.nn.Linear(3, 2).to(torch.bfloat16)
framework = frameworks.of(hvd.elastic.TorchState(model=model, step=7))
before = {{name: one.clone() for name, one in model.state_dict().items()}}
kept = state_codec.pack(framework.export(), framework.as_array)
for one in model.parameters():
    one.data.zero_()
framework.load(state_codec.unpack(*kept))
assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
assert framework.state.step == 7
"""
"""A state of bfloat16, which numpy has not, through the form that a checkpoint has."""

TENSORS_OF_TORCH = f"""{CARRIED}
import torch
import horovod.torch as hvd
from carried.runtime import frameworks, state_codec
hvd.init()
mean = [torch.ones(2, dtype=torch.bfloat16)]
state = hvd.elastic.TorchState(model=torch.nn.Linear(3, 2), best=torch.tensor(0.5), mean=mean, step=7)
framework = frameworks.of(state)
kept = state_codec.pack(framework.export(), framework.as_array)
state.best, state.mean, state.step = torch.tensor(9.0), [], 0
framework.load(state_codec.unpack(*kept))
assert torch.equal(state.best, torch.tensor(0.5)), state.best
assert torch.equal(state.mean[0], mean[0]) and state.mean[0].dtype == torch.bfloat16, state.mean
kept = framework.export()
kept["attributes"]["best"]["device"] = "cuda:7"
framework.load(state_codec.unpack(*state_codec.pack(kept, framework.as_array)))
assert torch.equal(state.best, torch.tensor(0.5)), state.best
assert state.step == 7
"""
"""Tensors that are no model's, among the plain values of a state; one is of a device that this worker does not have."""

KEPT_APART = f"""{CARRIED}
import torch
import horovod.torch as hvd
from carried.runtime import frameworks, state_codec
hvd.init()
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

def load(kept):  # as PyTorch does it from 2.1 on
    for number, slots in kept["state"].items():
        optimizer.state[optimizer.param_groups[0]["params"][number]] = dict(slots)

def step():
    optimizer.zero_grad()
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()

def momentum():
    return [slots["momentum_buffer"].clone() for slots in optimizer.state.values()]

step()
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=1)
framework, committed = frameworks.of(state), momentum()
optimizer.load_state_dict = load
written = state_codec.pack(framework.export(), framework.as_array)[1]  # on its way to a slow disk
kept = dict((name, one.copy()) for name, one in written.items())
for _ in range(2):
    step()
    framework.go_back()
    assert all(torch.equal(*both) for both in zip(momentum(), committed)), (momentum(), committed)
step()
assert kept and all((written[name] == one).all() for name, one in kept.items())
"""
"""An optimizer that keeps the tensors that it is given."""

pytestmark = [pytest.mark.plane, pytest.mark.timeout(500)]


def test_tensors_of_tensorflow_among_plain_values_come_back_as_tensors(horovod_python):
    """A variable that counts, the best loss so far: a script that uses them as such goes on after a restart."""
    holds(horovod_python, TENSORS_OF_TENSORFLOW)


def test_an_optimizer_that_cannot_be_built_ahead_is_left_alone(horovod_python):
    """One of TensorFlow 1 has no call for it; its slots come with the first step, which is taken alone."""
    holds(horovod_python, OLD_OPTIMIZER)


def test_steps_are_noted_also_where_nobody_else_is(horovod_python):
    """By graphs, eagerly and in Keras's `fit`: a warm-up, and a round of one, show that they go on. In a graph no note is
    outside of a condition, where it would hold up the reductions of those who are more.
    """
    holds(horovod_python, MARKED_ALONE)


def test_weights_that_numpy_has_no_type_for_come_back_exactly(torch_python):
    """A model in bfloat16 goes through a checkpoint and is, bit by bit, what it was."""
    holds(torch_python, KEPT_EXACTLY)


def test_a_second_failure_goes_back_to_the_same_commit(torch_python):
    """The optimizer too: steps after the first failure have changed nothing of what was committed, nor of what was being
    written to the disk.
    """
    holds(torch_python, KEPT_APART)


def test_tensors_of_torch_among_plain_values_come_back_as_tensors(torch_python):
    """The best loss so far, a moving mean: a script that uses them as tensors goes on after a restart."""
    holds(torch_python, TENSORS_OF_TORCH)


def test_a_training_of_torch_is_that_without_a_rehearsal(torch_python):
    """To the bit, with dropout and shuffling: also a moving average of the weights, a schedule of rates and an optimizer
    that are not in the state. After the rehearsal all is as before it, optimizers without slots too.
    """
    holds(torch_python, rehearsal.TORCH)


def test_a_training_of_tensorflow_is_that_without_a_rehearsal(horovod_python):
    """The same masks and the same order of batches, in a loop of the script's and in Keras's `fit`, also after steps at
    set-up; an iterator that is made outside goes on where it was; what is made while a function is traced stays.
    """
    holds(horovod_python, rehearsal.TENSORFLOW)
