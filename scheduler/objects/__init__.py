"""The Kubernetes API: how objects are written, and how they translate to values of `model`.

Lives here: every label, annotation and gate (`labels`), the API objects as far as they are read (`api`,
`watched_resources`), their translation into values (`translate` and its helpers), the readers of the gang formats
(`gangs`), and the bodies of the API calls that effects become (`patches`).
Never here: a call, a clock, stored decisions, or a choice of nodes.
Called by: the edges, the service and the command line. Pure: the same object always translates to the same value.
"""
