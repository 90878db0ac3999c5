"""The ways of changing a job's size, each run alike: train at one size, grow by workers, train, shrink, train, end."""
