"""The running service: watches → engine → effects → the API server, and kube-scheduler's questions in between.

Lives here: what waits. Facts are observed the moment a watch delivers them, in one step that never waits; the
planning pass runs as a task of its own, one gang at a time, so that a verb is never behind more than one of
them. Never here: a decision.
"""
