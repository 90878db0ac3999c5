"""Pictures of jobs, drawn for the tests."""

from scheduler.elastic.sizing import JobView, Measured, decode, size, slots


def seen(rates, *, count=50, error=0.0, age=0.0):
    """Size → what was measured there; error: relative standard deviation of one measurement."""
    return {
        workers: Measured(mean=rate, variance=(error * rate) ** 2, count=count, age=age)
        for workers, rate in rates.items()
    }


def job(policy="offer", parameters=None, **words):
    """A job that trains as it was decided, unless the words say otherwise."""
    at = words.get("size", 0)
    picture = {"name": "team/a", "min": 1, "max": 16, "held": at, "want": at, "warm": 0.0}
    return JobView(**picture | {"parameters": decode(policy, parameters or {})} | words)


def wanted(picture, room=100):
    """The size of this job alone, with room for so many more."""
    return size([picture], slots(room))[picture.name].size
