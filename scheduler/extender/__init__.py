"""The edge to kube-scheduler: three extender endpoints over HTTP.

Lives here: the JSON of the endpoints, and the server for it. Never here: a comparison of nodes, or memory of a pod.
Both are behind `verb_handlers.Verbs`, which the engine provides. Only the service may import this package.

    wire            bytes ⇄ calls and answers; pure
    verb_handlers   decode → engine → encode
    extender_app    routes, one canonical line and one counter per call
    byte_cache      a cache bounded in bytes, for lists and rejections that repeat
"""
