"""The cluster's language: how API objects are spelled, and what they mean in the words of `model`.

Lives here: every label, annotation and gate (`labels`), the API objects as far as we read them (`api`, `watched_resources`),
their translation into values (`translate` and what it calls), the readers of the gang formats (`gangs`), and the
bodies of the calls that effects become (`patches`).
Never here: a call, a clock, a memory of what was decided, or an opinion about nodes.
Who may call: the edges, the service and the command line. Pure: the same object always means the same.
"""
