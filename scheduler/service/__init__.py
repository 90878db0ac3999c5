"""The running service: watches → engine → effects → the API server, and kube-scheduler's calls in between.

Lives here: all code that waits. The service takes in facts as soon as a watch delivers them, in one step that never
waits. The planning pass runs as a separate task, one gang at a time, so a call of kube-scheduler waits for at most one
gang. Never here: a decision.
"""
