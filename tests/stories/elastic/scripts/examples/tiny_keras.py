"""What the Keras examples share: a small model that tells which samples each of its steps trains.

The data set carries the number of each sample beside it. The model keeps the numbers of its last step in a variable
that is none of its weights.

Order and masks of dropout come from the seed of the process, which upstream does not set. Ranks have seeds of their own.
"""

import tensorflow as tf
import tiny_pictures

tf.config.threading.set_intra_op_parallelism_threads(1)

taken = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)
"""The numbers of the samples of the last step."""


class Told(tf.keras.Sequential):
    """A model whose batches are (pictures, classes, numbers)."""

    def train_step(self, data):
        shown, classes, numbers = data
        taken.assign(numbers)
        return super().train_step((shown, classes))


class Taking(tf.keras.callbacks.Callback):
    """Writes each step into the diary, and counts it in the elastic state."""

    def __init__(self, diary, state, rank, size):
        super().__init__()
        self._diary, self._state, self._rank, self._size = diary, state, rank, size

    def on_batch_end(self, batch, logs=None):
        state = self._state
        self._diary.took(state.step, state.epoch, taken.numpy(), self._rank(), self._size())
        state.step += 1


def samples(count):
    """A data set of (picture, class, number)."""
    shown, classes = tiny_pictures.pictures(count)
    return tf.data.Dataset.from_tensor_slices(
        (shown[..., tf.newaxis], classes, tf.range(count, dtype=tf.int64))
    )


def shuffled(count, batch):
    """Without an end, in another order for each iterator, which the seed of the process decides."""
    return samples(count).repeat().shuffle(count).batch(batch, drop_remainder=True)


def layers():
    """Of a small network for these pictures."""
    keras = tf.keras.layers
    return [
        keras.Conv2D(8, 3, activation="relu", input_shape=(8, 8, 1)),
        keras.MaxPooling2D(2),
        keras.Dropout(0.25),
        keras.Flatten(),
        keras.Dense(24, activation="relu"),
        keras.Dropout(0.5),
        keras.Dense(10, activation="softmax"),
    ]
